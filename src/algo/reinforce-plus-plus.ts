/**
 * REINFORCE++ (Hu et al. 2025, arXiv:2501.03262): discounted returns of tokens with KL in the reward, whitened over the step's tokens,
 * clipped ratio. Deviation: returns pass over tool output to the turns before it (as in OpenRLHF; verl sets them to 0 there).
 */
import { real } from "../config-fields.ts";
import { klRewards } from "../loop/advantage/kl-reward.ts";
import { tokenReturns } from "../loop/advantage/token-returns.ts";
import { whitened } from "../loop/advantage/whiten.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, klInLoss, klInReward, reductions, samplesOf, stability, truncation } from "./settings.ts";

export const reinforcePlusPlus = defineAlgorithm({
  name: "reinforce-plus-plus",
  paper: "arXiv:2501.03262",
  config: {
    ...samplesOf(8),
    gamma: real({ above: 0, max: 1 }, 1, "discount from a token to the one before it"),
    ...clipTo(0.2, 0.2),
    ...dualClip,
    ...klInReward(0.01),
    ...klInLoss(0, "k2"),
    reduction: reductions("token-mean"),
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      credit: (groups, context) =>
        whitened(
          groups.map(({ members }) =>
            members.map(({ trajectory, verdict }) => {
              if (verdict.type !== "scored") return null;
              const rewards = klRewards(trajectory, context, settings.klRewardCoef);
              return { trajectory, advantages: tokenReturns(trajectory, { score: verdict.score, gamma: settings.gamma, rewards }) };
            }),
          ),
        ),
    }),
});
