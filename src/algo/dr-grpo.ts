/**
 * Dr. GRPO (Liu et al. 2025, arXiv:2503.20783): GRPO without its two biases. Rewards are centred and not scaled, and every completion
 * is divided by one constant, the longest possible. No KL, as in the paper. Deviation: the constant is maxTokens x maxTurns.
 */
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, stability, truncation } from "./settings.ts";

export const drGrpo = defineAlgorithm({
  name: "dr-grpo",
  paper: "arXiv:2503.20783",
  config: {
    ...groupOf(8),
    ...clipTo(0.2, 0.2),
    ...dualClip,
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      reduction: "constant",
      credit: (groups) =>
        broadcastGroups(
          groups,
          rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, "none")),
        ),
    }),
});
