/**
 * Direct preference optimisation (Rafailov et al. 2023, arXiv:2305.18290): the policy is its own reward model. Variants by `loss`:
 * conservative (cDPO, Mitchell 2023), robust (arXiv:2403.00409), hinge (arXiv:2305.10425), ipo (arXiv:2310.12036). Defaults are those
 * of TRL's DPOTrainer. Deviation: TRL's "sigmoid" with label smoothing is not there; it is called conservative here.
 */
import { oneOf, real } from "../config-fields.ts";
import { dpoLoss, dpoLosses } from "../loop/loss/preference.ts";
import { defineOffline } from "./define.ts";
import { sampledRates } from "./settings.ts";

export const dpo = defineOffline({
  name: "dpo",
  paper: "arXiv:2305.18290",
  config: {
    loss: oneOf(dpoLosses, "sigmoid", "which loss over the pair's margin"),
    beta: real({ above: 0, max: 100 }, 0.1, "weight of the constraint to the reference"),
    labelSmoothing: real({ min: 0, below: 0.5 }, 0, "share of pairs whose label is wrong"),
    /** TRL and the paper's authors average over tokens; the paper's formula and OpenRLHF sum. */
    ipoLength: oneOf(["mean", "sum"], "mean", "whether IPO compares log-probs a token or of whole answers"),
    /** Precomputed: one pass before the first step, kept in the run folder; no second set of weights afterwards. */
    reference: oneOf(["live", "precomputed"], "live", "when the reference's log-probs are computed"),
  },
  refuse: ({ loss, labelSmoothing, ipoLength }) => {
    const noisy = loss === "conservative" || loss === "robust";
    const both = `algo.loss and algo.labelSmoothing: ${loss} with ${labelSmoothing}`;
    return [
      ...(labelSmoothing > 0 && !noisy ? [`${both}: it has no effect there; set algo.loss to conservative or robust`] : []),
      ...(labelSmoothing === 0 && noisy ? [`${both} is the sigmoid loss; set algo.labelSmoothing above 0 or algo.loss to sigmoid`] : []),
      ...(ipoLength === "sum" && loss !== "ipo" ? [`algo.loss and algo.ipoLength: ${loss} does not read ipoLength; leave it out`] : []),
    ];
  },
  build: ({ loss, beta, labelSmoothing, ipoLength }) => ({
    examples: "pairs",
    trains: "policy",
    learningRate: sampledRates,
    reduction: "sequence-mean",
    needsReference: true,
    loss: dpoLoss({ variant: loss, beta, labelSmoothing, ipoLength, sign: "sign" }),
  }),
});
