/**
 * A process reward model from labelled steps (Lightman et al. 2023, arXiv:2305.20050; labels by completing prefixes: Math-Shepherd,
 * arXiv:2312.08935): binary cross-entropy of the head's value after the last token of each step. Deviation from TRL's former
 * PRMTrainer: one logit in place of two classes, which is the same function of their difference.
 */
import { oneOf, text } from "../config-fields.ts";
import { stepCrossEntropy } from "../loop/loss/reward.ts";
import { defineOffline } from "./define.ts";

export const processRewardModel = defineOffline({
  name: "process-reward-model",
  paper: "arXiv:2305.20050",
  config: {
    separator: text(/^[^]*$/, "a text", "written after each step; its last token carries the step's label").default("\n"),
    /** Math-Shepherd's hard estimate: a step is right if any completion of it was. */
    labels: oneOf(["soft", "hard"], "soft", "labels as they are given, or 1 for all above 0"),
    reduction: oneOf(["token-mean", "sequence-mean"], "token-mean", "mean over all steps, or over solutions and then steps"),
  },
  build: ({ reduction }) => ({
    examples: "steps",
    trains: "reward",
    learningRate: { full: 1e-5, lora: 1e-4 },
    reduction,
    needsReference: false,
    loss: stepCrossEntropy,
  }),
});
