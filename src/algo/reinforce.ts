/**
 * REINFORCE (Williams 1992) with one baseline for the whole step, the mean reward; or the group's mean, or OPO's mean weighted by
 * length (arXiv:2505.23585). No ratio and no clip, so one step on a batch. Deviation: all tokens of the step share one divisor by
 * default, where the textbook sums each episode.
 */
import { oneOf } from "../config-fields.ts";
import { batchCentred, lengthWeighted } from "../loop/advantage/baselines.ts";
import { groupAdvantages } from "../loop/advantage/group.ts";
import { klReward } from "../loop/advantage/kl-reward.ts";
import { broadcastGroups, rewardsOf, sampledLength, type PerMember } from "../loop/advantage/outcome.ts";
import { policyGradient } from "../loop/loss/surrogate.ts";
import type { Group } from "../types.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { correction, klInLoss, klInReward, reductions, samplesOf, stability, truncation } from "./settings.ts";

const baselines = ["batch-mean", "group-mean", "group-length-weighted"] as const;

export const reinforce = defineAlgorithm({
  name: "reinforce",
  paper: "doi:10.1007/BF00992696",
  config: {
    ...samplesOf(8),
    baseline: oneOf(baselines, "batch-mean", "what rewards are compared with"),
    ...klInReward(0),
    ...klInLoss(0, "k2"),
    reduction: reductions("token-mean"),
    ...truncation,
    ...stability,
    ...correction,
  },
  refuse: (settings, defaults) => [
    ...refusals(settings, defaults),
    ...(settings.groupSize > 1 || settings.baseline === "batch-mean"
      ? []
      : [`algo.groupSize and algo.baseline: ${settings.baseline} compares >= 2 samples, got 1; raise groupSize or use batch-mean`]),
  ],
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: policyGradient,
      credit: (groups, context) => {
        const rewards_P_G = rewardsOf(groups, (score, { trajectory }) => score + klReward(trajectory, context, settings.klRewardCoef));
        return broadcastGroups(groups, compared(settings.baseline, groups, rewards_P_G));
      },
    }),
});

function compared(baseline: (typeof baselines)[number], groups: readonly Group[], rewards_P_G: readonly PerMember[]): PerMember[] {
  switch (baseline) {
    case "batch-mean":
      return batchCentred(rewards_P_G);
    case "group-mean":
      return rewards_P_G.map((rewards_G) => groupAdvantages(rewards_G, "none"));
    case "group-length-weighted":
      return rewards_P_G.map((rewards_G, p) => lengthWeighted(rewards_G, groups[p]!.members.map(sampledLength)));
  }
}
