/**
 * GSPO (Zheng et al. 2025, arXiv:2507.18071): one ratio for a whole sequence, the geometric mean of its tokens', clipped tightly; each
 * completion counts alike. Deviation: a row is a sequence, so an episode of several rows has several ratios.
 */
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, epochs, groupOf, klInLoss, scaling, stability, truncation } from "./settings.ts";

export const gspo = defineAlgorithm({
  name: "gspo",
  paper: "arXiv:2507.18071",
  config: {
    ...groupOf(8),
    ...clipTo(3e-4, 4e-4),
    ...klInLoss(0, "k3"),
    ...scaling,
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ level: "row-mean", low: settings.clipLow, high: settings.clipHigh }),
      reduction: "sequence-mean",
      credit: (groups) =>
        broadcastGroups(
          groups,
          rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, settings.scale)),
        ),
    }),
});
