/**
 * A reward model from pairs (Bradley and Terry 1952; Ouyang et al. 2022, arXiv:2203.02155): an adapter "reward" with a linear head,
 * read after the last token of a conversation. The pair's own `margin` counts if it has one. Defaults are those of TRL's
 * RewardTrainer. `ensemble` members differ in their start and in the pairs that they see (bootstrap), so that their disagreement
 * says how far a score can be trusted.
 */
import { real, whole } from "../config-fields.ts";
import { bradleyTerry } from "../loop/loss/reward.ts";
import { defineOffline } from "./define.ts";

export const rewardModel = defineOffline({
  name: "reward-model",
  paper: "arXiv:2203.02155",
  config: {
    /** arXiv:2312.09244 uses 0.01. */
    centring: real({ min: 0, max: 100 }, 0, "weight of the squared sum of a pair's scores; 0 turns it off"),
    labelSmoothing: real({ min: 0, below: 0.5 }, 0, "share of pairs whose label is wrong"),
    ensemble: whole({ min: 1, max: 16 }, 1, "reward models that are trained side by side"),
  },
  build: ({ centring, labelSmoothing }) => ({
    examples: "pairs",
    trains: "reward",
    learningRate: { full: 1e-4, lora: 1e-4 },
    reduction: "sequence-mean",
    needsReference: false,
    loss: bradleyTerry({ centring, labelSmoothing }),
  }),
});
