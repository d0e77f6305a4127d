/** Supervised fine-tuning: cross-entropy of the assistant turns of given dialogues, nothing else trained. */
import { crossEntropy } from "../loop/loss/cross-entropy.ts";
import type { Loss, Reduction } from "../types.ts";

export interface SftOptions {
  readonly reduction?: Exclude<Reduction, "constant">;
}

export interface SupervisedAlgorithm {
  readonly name: "sft";
  readonly reduction: Exclude<Reduction, "constant">;
  readonly loss: Loss;
}

export function sft({ reduction = "token-mean" }: SftOptions = {}): SupervisedAlgorithm {
  return { name: "sft", reduction, loss: crossEntropy };
}
