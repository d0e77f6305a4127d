/**
 * MaxRL (Tajwar et al. 2026, arXiv:2602.02710): centred rewards divided by the group's mean, which approaches the gradient of log
 * success as groups grow. Deviations: no epsilon (a mean of 0 has no variance); GRPO's clip for more than one step on a batch.
 */
import { meanScaled } from "../loop/advantage/baselines.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, reductions, stability, truncation } from "./settings.ts";

export const maxrl = defineAlgorithm({
  name: "maxrl",
  paper: "arXiv:2602.02710",
  config: {
    ...groupOf(8),
    ...clipTo(0.2, 0.2),
    ...dualClip,
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
      credit: (groups) => broadcastGroups(groups, rewardsOf(groups).map(meanScaled)),
    }),
});
