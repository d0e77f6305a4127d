/** Supervised fine-tuning: cross-entropy of the assistant turns of given dialogues, nothing else trained. */
import { oneOf } from "../config-fields.ts";
import { crossEntropy } from "../loop/loss/cross-entropy.ts";
import { defineOffline } from "./define.ts";

export const sft = defineOffline({
  name: "sft",
  paper: "arXiv:2203.02155",
  config: { reduction: oneOf(["token-mean", "sequence-mean"], "token-mean", "what the summed loss is divided by") },
  build: ({ reduction }) => ({
    examples: "dialogues",
    trains: "policy",
    learningRate: { full: 2e-5, lora: 2e-4 },
    reduction,
    needsReference: false,
    loss: crossEntropy,
  }),
});
