/** Llama (Llama 2 and 3, SmolLM2): RMS norm, rotary positions, grouped queries, gated MLP, no biases. */
import { ModelError, expected } from "../../../errors.ts";
import type { JsonObject } from "../../../types.ts";
import { numberOf, ropeOf, type Architecture, type Family, type StoredAs } from "../architecture.ts";

/** Our parameter names -> the names that the whole Llama line of families shares. */
const names: Readonly<Record<string, string>> = {
  attnNorm: "input_layernorm",
  q: "self_attn.q_proj",
  k: "self_attn.k_proj",
  v: "self_attn.v_proj",
  o: "self_attn.o_proj",
  qNorm: "self_attn.q_norm",
  kNorm: "self_attn.k_norm",
  mlpNorm: "post_attention_layernorm",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
};

export function llamaName(parameter: string): StoredAs {
  if (parameter === "embed.weight") return { name: "model.embed_tokens.weight" };
  if (parameter === "finalNorm.weight") return { name: "model.norm.weight" };
  if (parameter === "head.weight") return { name: "lm_head.weight" };
  const [, layer, part, kind] = /^layers\.(\d+)\.(\w+)\.(weight|bias)$/.exec(parameter) ?? [];
  const stored = part === undefined ? undefined : names[part];
  if (stored === undefined) throw new ModelError(expected("parameter name", "one of the Llama line", parameter));
  return { name: `model.layers.${layer!}.${stored}.${kind!}` };
}

/** Settings that the Llama line shares; families differ in the last two arguments. */
export function llamaLike(
  config: JsonObject,
  family: string,
  differs: { readonly qkvBias: boolean; readonly qkNorm: boolean; readonly theta: number },
): Architecture {
  const hidden = numberOf(config, "hidden_size");
  const heads = numberOf(config, "num_attention_heads");
  const activation = config["hidden_act"] ?? "silu";
  if (activation !== "silu") throw new ModelError(expected("config.json hidden_act", '"silu"', JSON.stringify(activation)));
  if (config["use_sliding_window"] === true)
    throw new ModelError(expected("config.json use_sliding_window", "false", "true", "windowed attention is not supported"));
  return {
    family,
    layers: numberOf(config, "num_hidden_layers"),
    hidden,
    heads,
    kvHeads: numberOf(config, "num_key_value_heads", heads),
    headDim: typeof config["head_dim"] === "number" ? config["head_dim"] : hidden / heads,
    intermediate: numberOf(config, "intermediate_size"),
    vocabulary: numberOf(config, "vocab_size"),
    context: numberOf(config, "max_position_embeddings", 2048),
    epsilon: numberOf(config, "rms_norm_eps", 1e-6),
    norm: "rms",
    mlp: "gated",
    positions: ropeOf(config, differs.theta),
    qkvBias: differs.qkvBias,
    projectionBias: false,
    qkNorm: differs.qkNorm,
    tied: config["tie_word_embeddings"] === true,
  };
}

export const llama: Family = {
  name: "llama",
  architectures: ["LlamaForCausalLM"],
  modelTypes: ["llama"],
  read: (config) => {
    if (config["attention_bias"] === true || config["mlp_bias"] === true) {
      throw new ModelError(expected("config.json attention_bias and mlp_bias", "false", "true"));
    }
    return llamaLike(config, "llama", { qkvBias: false, qkNorm: false, theta: 10_000 });
  },
  storedAs: llamaName,
};
