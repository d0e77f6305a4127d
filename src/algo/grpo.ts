/**
 * GRPO (Shao et al. 2024, arXiv:2402.03300): reward minus the group's mean, clipped ratio, no critic. Defaults are those of TRL's
 * GRPOTrainer. Deviations: the deviation carries no epsilon (groups without variance are found by comparing rewards), and the KL
 * term is off by default.
 */
import { oneOf } from "../config-fields.ts";
import { batchScaledAdvantages, groupAdvantages, groupScales } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, klInLoss, reductions, stability, truncation } from "./settings.ts";

export const grpo = defineAlgorithm({
  name: "grpo",
  paper: "arXiv:2402.03300",
  config: {
    ...groupOf(8),
    ...clipTo(0.2, 0.2),
    ...dualClip,
    ...klInLoss(0, "k3"),
    reduction: reductions("token-mean"),
    /** "none" is Dr. GRPO's; sample std divides by n - 1. */
    scale: oneOf([...groupScales, "batch-sample-std"], "group-sample-std", "what centred rewards are divided by"),
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      credit: (groups) => {
        const rewards_P_G = rewardsOf(groups);
        const { scale } = settings;
        return broadcastGroups(
          groups,
          scale === "batch-sample-std"
            ? batchScaledAdvantages(rewards_P_G)
            : rewards_P_G.map((rewards_G) => groupAdvantages(rewards_G, scale)),
        );
      },
    }),
});
