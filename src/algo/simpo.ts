/**
 * SimPO (Meng et al. 2024, arXiv:2405.14734): the reward of an answer is its mean log-prob a token, with a target margin and no
 * reference. Defaults: beta 2 and gamma 1 are where the paper starts; TRL's CPOTrainer has 0.1 and 0.5. `likelihoodWeight` 1 is
 * CPO-SimPO (arXiv:2401.08417).
 */
import { real } from "../config-fields.ts";
import { simpoLoss } from "../loop/loss/preference.ts";
import { defineOffline } from "./define.ts";
import { sampledRates } from "./settings.ts";

export const simpo = defineOffline({
  name: "simpo",
  paper: "arXiv:2405.14734",
  config: {
    beta: real({ above: 0, max: 100 }, 2, "scale of the reward"),
    gamma: real({ min: 0, max: 100 }, 1, "margin by which the chosen answer's reward has to be ahead"),
    labelSmoothing: real({ min: 0, below: 0.5 }, 0, "share of pairs whose label is wrong"),
    likelihoodWeight: real({ min: 0, max: 100 }, 0, "weight of the chosen answers' likelihood; 0 turns it off"),
  },
  build: (settings) => ({
    examples: "pairs",
    trains: "policy",
    learningRate: sampledRates,
    reduction: "sequence-mean",
    needsReference: false,
    loss: simpoLoss(settings),
  }),
});
