/** Settings that several algorithms have. */
import { oneOf } from "../config-fields.ts";
import type { LearningRates, Reduction } from "../types.ts";

/** All tokens of the step, each completion alone and then completions, or the longest completion possible (Dr. GRPO). */
export function reductions(fallback: Reduction): ReturnType<typeof oneOf<Reduction>> {
  return oneOf<Reduction>(["token-mean", "sequence-mean", "constant"], fallback, "what the summed loss is divided by");
}

/** TRL's and verl's 1e-6 for all weights, ten times that for an adapter. */
export const sampledRates: LearningRates = { full: 1e-6, lora: 1e-5 };
