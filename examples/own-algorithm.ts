/** A new algorithm in one file: a sample's advantage is its rank in the group, so that one huge reward cannot drown the others. */
import {
  broadcastGroups,
  clippedSurrogate,
  defineAlgorithm,
  policyLoss,
  real,
  rewardsOf,
  sampledRates,
  whole,
  type PerMember,
} from "../src/algo/index.ts";

export const ranked = defineAlgorithm({
  name: "ranked",
  paper: "this file",
  config: {
    groupSize: whole({ min: 2, max: 64 }, 8, "samples of one task, which are ranked"),
    clip: real({ above: 0, max: 1 }, 0.2, "clip of the ratio, on both sides"),
  },
  build: ({ groupSize, clip }) => ({
    groupSize,
    learningRate: sampledRates,
    reduction: "token-mean",
    maskTruncated: false,
    epochsPerBatch: 1,
    credit: (groups) => broadcastGroups(groups, rewardsOf(groups).map(ranks)),
    loss: policyLoss({ surrogate: clippedSurrogate({ low: clip, high: clip }) }),
  }),
});

/** From -1 for the worst to 1 for the best; equal rewards share a rank, and a sample that was not scored has none. */
function ranks(rewards: PerMember): PerMember {
  const scored = rewards.filter((reward) => reward !== null);
  const rank = (reward: number): number => scored.reduce((sum, other) => sum + Math.sign(reward - other), 0);
  return rewards.map((reward) => (reward === null ? null : rank(reward) / Math.max(1, scored.length - 1)));
}
