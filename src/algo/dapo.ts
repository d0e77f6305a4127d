/**
 * DAPO (Yu et al. 2025, arXiv:2503.14476): clip-higher, mean over all tokens, tasks without signal replaced by others, and a soft
 * penalty for answers near the limit. No KL, as in the paper. Deviations: the penalty's buffer is a share of maxTokens and looks at the
 * longest turn; the deviation carries no epsilon.
 */
import { real, whole } from "../config-fields.ts";
import { groupAdvantages } from "../loop/advantage/group.ts";
import { overlongPenalty } from "../loop/advantage/length-penalty.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, stability, truncation } from "./settings.ts";

export const dapo = defineAlgorithm({
  name: "dapo",
  paper: "arXiv:2503.14476",
  config: {
    ...groupOf(16),
    ...clipTo(0.2, 0.28),
    ...dualClip,
    /** verl: at most 10 rounds; 0 turns dynamic sampling off. */
    resampleRounds: whole({ min: 0, max: 100 }, 10, "rounds in which tasks without signal are replaced; 0 turns it off"),
    overlongBuffer: real({ min: 0, max: 1 }, 0.2, "share of maxTokens before the limit in which answers are penalised; 0 turns it off"),
    overlongPenalty: real({ above: 0, max: 100 }, 1, "reward that is lost at the limit"),
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      resampleRounds: settings.resampleRounds,
      credit: (groups, context) => {
        const soft = { buffer: settings.overlongBuffer, penalty: settings.overlongPenalty };
        const rewards_P_G = rewardsOf(groups, (score, member) => score + overlongPenalty(member, context, soft));
        return broadcastGroups(
          groups,
          rewards_P_G.map((rewards_G) => groupAdvantages(rewards_G, "group-sample-std")),
        );
      },
    }),
});
