/**
 * DPPO (Qi et al. 2026, arXiv:2602.04879), binary total variation: no clip of the ratio; a token is dropped once its probability has
 * moved too far from the sampler's. The sampler is the trust region's centre, so there is no separate correction for it. Deviations:
 * GRPO's advantage, which the paper leaves open; bounds 0.2 and 0.2 of SkyRL.
 */
import { real } from "../config-fields.ts";
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { divergenceMasked } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { epochs, groupOf, reductions, scaling, stability, truncation } from "./settings.ts";

export const dppo = defineAlgorithm({
  name: "dppo",
  paper: "arXiv:2602.04879",
  config: {
    ...groupOf(8),
    divergenceLow: real({ above: 0, max: 1 }, 0.2, "largest fall of a token's probability"),
    divergenceHigh: real({ above: 0, max: 1 }, 0.2, "largest rise of a token's probability"),
    reduction: reductions("token-mean"),
    ...scaling,
    ...truncation,
    ...epochs,
    ...stability,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: divergenceMasked({ low: settings.divergenceLow, high: settings.divergenceHigh }),
      credit: (groups) =>
        broadcastGroups(
          groups,
          rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, settings.scale)),
        ),
    }),
});
