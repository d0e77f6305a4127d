/**
 * Odds ratio preference optimisation (Hong et al. 2024, arXiv:2403.07691): supervised fine-tuning on the chosen answer and the odds
 * ratio against the rejected one, in one step and without a reference. Defaults are those of TRL's ORPOTrainer. Deviation: the
 * likelihood is that of the answer; TRL's covers the prompt too.
 */
import { real } from "../config-fields.ts";
import { orpoLoss } from "../loop/loss/preference.ts";
import { defineOffline } from "./define.ts";
import { sampledRates } from "./settings.ts";

export const orpo = defineOffline({
  name: "orpo",
  paper: "arXiv:2403.07691",
  config: { beta: real({ above: 0, max: 100 }, 0.1, "weight of the odds ratio (the paper's lambda)") },
  build: ({ beta }) => ({
    examples: "pairs",
    trains: "policy",
    learningRate: sampledRates,
    reduction: "sequence-mean",
    needsReference: false,
    loss: orpoLoss(beta),
  }),
});
