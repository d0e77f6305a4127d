/**
 * REINFORCE++ with a baseline (Hu et al. 2025, arXiv:2501.03262): reward minus the group's mean, whitened over the step's tokens, KL in
 * the loss as k2. Deviation: a sample left alone in its group has advantage 0 before whitening (verl gives it its reward).
 */
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { whitened } from "../loop/advantage/whiten.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, klInLoss, reductions, stability, truncation } from "./settings.ts";

export const reinforcePlusPlusBaseline = defineAlgorithm({
  name: "reinforce-plus-plus-baseline",
  paper: "arXiv:2501.03262",
  config: {
    ...groupOf(8),
    ...clipTo(0.2, 0.2),
    ...dualClip,
    ...klInLoss(0.001, "k2"),
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
      credit: (groups) =>
        whitened(
          broadcastGroups(
            groups,
            rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, "none")),
          ),
        ),
    }),
});
