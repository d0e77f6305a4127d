/** The models that are measured: real shapes, random weights. */
import type { Architecture } from "../src/compute/models/architecture.ts";
import { llama } from "../src/compute/models/families/llama.ts";
import type { JsonObject } from "../src/types.ts";

export const shapeNames = ["smollm2", "tiny"] as const;
export type ShapeName = (typeof shapeNames)[number];

/** config.json of each shape; "smollm2" is HuggingFaceTB/SmolLM2-135M. */
export const configs: Readonly<Record<ShapeName, JsonObject>> = {
  smollm2: {
    architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30,
    num_attention_heads: 9, num_key_value_heads: 3, vocab_size: 49152, max_position_embeddings: 2048, rms_norm_eps: 1e-5,
    rope_theta: 100000, tie_word_embeddings: true, hidden_act: "silu",
  },
  tiny: {
    architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: 128, intermediate_size: 384, num_hidden_layers: 4,
    num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 2048, max_position_embeddings: 1024, rms_norm_eps: 1e-5,
    rope_theta: 10000, tie_word_embeddings: true, hidden_act: "silu",
  },
};

export function architectureOf(shape: ShapeName): Architecture {
  return llama.read(configs[shape]);
}
