/** Qwen2 and Qwen2.5: the Llama line with biases on the query, key and value projections. */
import type { Family } from "../architecture.ts";
import { llamaLike, llamaName } from "./llama.ts";

export const qwen2: Family = {
  name: "qwen2",
  architectures: ["Qwen2ForCausalLM"],
  modelTypes: ["qwen2"],
  read: (config) => llamaLike(config, "qwen2", { qkvBias: true, qkNorm: false, theta: 10_000 }),
  storedAs: llamaName,
};
