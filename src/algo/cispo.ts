/**
 * CISPO (MiniMax-M1, arXiv:2506.13585): the ratio is clipped as a weight and carries no gradient, so no token is lost. Of the five
 * conventions in use this is [1 - clipLow, 1 + clipHigh] with 1 and 4, that is [0, 5] (ART, SkyRL); TRL's epsilon_high is 1 + clipHigh,
 * without a floor. No KL, as in the paper.
 */
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedWeight } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, epochs, groupOf, reductions, scaling, stability, truncation } from "./settings.ts";

export const cispo = defineAlgorithm({
  name: "cispo",
  paper: "arXiv:2506.13585",
  config: {
    ...groupOf(8),
    ...clipTo(1, 4),
    reduction: reductions("token-mean"),
    ...scaling,
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedWeight({ low: settings.clipLow, high: settings.clipHigh }),
      credit: (groups) =>
        broadcastGroups(
          groups,
          rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, settings.scale)),
        ),
    }),
});
