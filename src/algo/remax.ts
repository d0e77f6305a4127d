/**
 * ReMax (Li et al. 2023, arXiv:2310.10505): the baseline is the score of the policy's own most likely answer, so one sample of a task
 * is enough. No ratio and no clip, so one step on a batch. Deviation: a task whose greedy answer was not scored teaches nothing.
 */
import { klRewards } from "../loop/advantage/kl-reward.ts";
import { tokenReturns } from "../loop/advantage/token-returns.ts";
import { policyGradient } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { correction, klInReward, reductions, samplesOf, stability, truncation } from "./settings.ts";

export const remax = defineAlgorithm({
  name: "remax",
  paper: "arXiv:2310.10505",
  config: {
    ...samplesOf(1),
    ...klInReward(0),
    reduction: reductions("token-mean"),
    ...truncation,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: policyGradient,
      needs: ["greedy"],
      credit: (groups, context) =>
        groups.map(({ members, greedy }) =>
          members.map(({ trajectory, verdict }) => {
            if (verdict.type !== "scored" || greedy?.verdict.type !== "scored") return null;
            const rewards = klRewards(trajectory, context, settings.klRewardCoef);
            // Without a discount the baseline may be taken off the score: equal scores then give 0 exactly.
            const score = verdict.score - greedy.verdict.score;
            return { trajectory, advantages: tokenReturns(trajectory, { score, gamma: 1, rewards }) };
          }),
        ),
    }),
});
