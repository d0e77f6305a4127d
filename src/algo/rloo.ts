/**
 * RLOO (Ahmadian et al. 2024, arXiv:2402.14740): each sample against the mean of the others, KL in the reward. The clip is TRL's, on
 * the product of the row's ratios. Deviations: groups of 4, the larger of the paper's two sizes (TRL: 2); a row is a sequence, so an
 * episode of several rows has several ratios.
 */
import { leaveOneOut } from "../loop/advantage/baselines.ts";
import { klReward } from "../loop/advantage/kl-reward.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, epochs, groupOf, klInReward, stability, truncation } from "./settings.ts";

export const rloo = defineAlgorithm({
  name: "rloo",
  paper: "arXiv:2402.14740",
  config: {
    ...groupOf(4),
    ...clipTo(0.2, 0.2),
    ...klInReward(0.05),
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ level: "row-product", low: settings.clipLow, high: settings.clipHigh }),
      reduction: "sequence-mean",
      credit: (groups, context) => {
        const rewards_P_G = rewardsOf(groups, (score, { trajectory }) => score + klReward(trajectory, context, settings.klRewardCoef));
        return broadcastGroups(groups, rewards_P_G.map(leaveOneOut));
      },
    }),
});
