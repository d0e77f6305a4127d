/**
 * TRPO (Schulman et al. 2015, arXiv:1502.05477), the trust-region ancestor of PPO: the natural gradient step of the surrogate, as long
 * as KL(old || new) stays below `maxKl`. Defaults are those of the paper and of OpenAI's baselines (maxKl 0.01, damping 0.1, 10
 * iterations, 10 backtracks). Deviation: the baseline is the mean of the task's samples, not a critic.
 */
import { real, whole } from "../config-fields.ts";
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { policyLoss } from "../loop/loss/policy-loss.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { groupOf, reductions, sampledRates, truncation } from "./settings.ts";

/** The ratio is held by the trust region, not by a clip. */
const unclipped = clippedSurrogate({ low: 1, high: 1e6 });

export const trpo = defineAlgorithm({
  name: "trpo",
  paper: "arXiv:1502.05477",
  config: {
    ...groupOf(8),
    maxKl: real({ above: 0, max: 10 }, 0.01, "largest KL of a step, nats a token"),
    damping: real({ min: 0, max: 100 }, 0.1, "added to the diagonal of the Fisher matrix"),
    iterations: whole({ min: 1, max: 1000 }, 10, "conjugate-gradient iterations, two passes each"),
    backtracks: whole({ min: 0, max: 100 }, 10, "halvings of the step that are tried"),
    reduction: reductions("token-mean"),
    ...truncation,
  },
  build: ({ groupSize, reduction, maskTruncated, ...trustRegion }) => ({
    groupSize,
    learningRate: sampledRates,
    reduction,
    maskTruncated,
    /** The divergence is taken over all tokens. */
    keepZero: true,
    epochsPerBatch: 1,
    credit: (groups) => broadcastGroups(groups, rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, "none"))),
    loss: policyLoss({ surrogate: unclipped }),
    trustRegion,
  }),
});
