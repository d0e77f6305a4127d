/** Qwen3: the Llama line with an RMS norm over each head's queries and keys, and a head size of its own. */
import { ModelError, expected } from "../../../errors.ts";
import type { Family } from "../architecture.ts";
import { llamaLike, llamaName } from "./llama.ts";

export const qwen3: Family = {
  name: "qwen3",
  architectures: ["Qwen3ForCausalLM"],
  modelTypes: ["qwen3"],
  read: (config) => {
    if (config["attention_bias"] === true) throw new ModelError(expected("config.json attention_bias", "false", "true"));
    return {
      ...llamaLike(config, "qwen3", { qkvBias: false, qkNorm: true, theta: 10_000 }),
      ...(config["head_dim"] === undefined ? { headDim: 128 } : {}),
    };
  },
  storedAs: llamaName,
};
