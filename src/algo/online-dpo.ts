/**
 * Online DPO (Guo et al. 2024, arXiv:2402.04792): the pair is the best and the worst of the policy's own samples, by the reward of the
 * environment (a verifier, a reward model or a judge). Defaults are those of TRL's OnlineDPOTrainer. Equal rewards train nothing.
 */
import { oneOf, real } from "../config-fields.ts";
import { broadcastCredit } from "../loop/advantage/broadcast.ts";
import { scoresOf } from "../loop/advantage/group.ts";
import { dpoLoss } from "../loop/loss/preference.ts";
import { defineAlgorithm } from "./define.ts";
import { epochs, groupOf } from "./settings.ts";

export const onlineDpo = defineAlgorithm({
  name: "online-dpo",
  paper: "arXiv:2402.04792",
  config: {
    /** The best and the worst of these are compared. */
    ...groupOf(2),
    loss: oneOf(["sigmoid", "ipo"], "sigmoid", "which loss over the pair's margin"),
    beta: real({ above: 0, max: 100 }, 0.1, "weight of the constraint to the reference"),
    ...epochs,
  },
  build: ({ groupSize, loss, beta, epochsPerBatch }) => ({
    groupSize,
    learningRate: { full: 5e-7, lora: 5e-6 },
    needs: ["reference"],
    reduction: "sequence-mean",
    // A pair without one of its answers would be no pair.
    maskTruncated: false,
    epochsPerBatch,
    credit: (groups) =>
      groups.map(({ members }) => {
        const signs_G = bestAndWorst(scoresOf(members.map(({ verdict }) => verdict)));
        return members.map(({ trajectory }, i) => (signs_G[i] === 0 ? null : broadcastCredit(trajectory, signs_G[i]!)));
      }),
    loss: dpoLoss({ variant: loss, beta, labelSmoothing: 0, ipoLength: "sum", sign: "advantage" }),
  }),
});

/** 1 for the first of the best, -1 for the first of the worst, 0 for all others; all 0 if the scores do not differ. */
function bestAndWorst(scores_G: readonly (number | null)[]): (1 | 0 | -1)[] {
  const scored = scores_G.filter((score) => score !== null);
  const [best, worst] = [Math.max(...scored), Math.min(...scored)];
  if (!(best > worst)) return scores_G.map(() => 0);
  const [first, last] = [scores_G.indexOf(best), scores_G.indexOf(worst)];
  return scores_G.map((_, i) => (i === first ? 1 : i === last ? -1 : 0));
}
