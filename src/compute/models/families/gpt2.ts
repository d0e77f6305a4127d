/** GPT-2: layer norm, learned positions, plain MLP with GELU, biases everywhere; matrices are stored [in, out] and q, k, v fused. */
import { ModelError, expected } from "../../../errors.ts";
import { numberOf, type Family, type StoredAs } from "../architecture.ts";

const names: Readonly<Record<string, StoredAs>> = {
  attnNorm: { name: "ln_1" },
  mlpNorm: { name: "ln_2" },
  q: { name: "attn.c_attn", transposed: true, part: { index: 0, count: 3 } },
  k: { name: "attn.c_attn", transposed: true, part: { index: 1, count: 3 } },
  v: { name: "attn.c_attn", transposed: true, part: { index: 2, count: 3 } },
  o: { name: "attn.c_proj", transposed: true },
  up: { name: "mlp.c_fc", transposed: true },
  down: { name: "mlp.c_proj", transposed: true },
};

function storedAs(parameter: string): StoredAs {
  if (parameter === "embed.weight") return { name: "transformer.wte.weight" };
  if (parameter === "positions.weight") return { name: "transformer.wpe.weight" };
  if (parameter === "head.weight") return { name: "lm_head.weight" };
  if (parameter.startsWith("finalNorm.")) return { name: parameter.replace("finalNorm", "transformer.ln_f") };
  const [, layer, part, kind] = /^layers\.(\d+)\.(\w+)\.(weight|bias)$/.exec(parameter) ?? [];
  const stored = part === undefined ? undefined : names[part];
  if (stored === undefined) throw new ModelError(expected("parameter name", "one of GPT-2", parameter));
  return { ...stored, name: `transformer.h.${layer!}.${stored.name}.${kind!}` };
}

export const gpt2: Family = {
  name: "gpt2",
  architectures: ["GPT2LMHeadModel"],
  modelTypes: ["gpt2"],
  read: (config) => {
    const activation = config["activation_function"] ?? "gelu_new";
    if (activation !== "gelu_new")
      throw new ModelError(expected("config.json activation_function", '"gelu_new"', JSON.stringify(activation)));
    const hidden = numberOf(config, "n_embd");
    const heads = numberOf(config, "n_head");
    const inner = config["n_inner"];
    return {
      family: "gpt2",
      layers: numberOf(config, "n_layer"),
      hidden,
      heads,
      kvHeads: heads,
      headDim: hidden / heads,
      intermediate: typeof inner === "number" ? inner : 4 * hidden,
      vocabulary: numberOf(config, "vocab_size"),
      context: numberOf(config, "n_positions", 1024),
      epsilon: numberOf(config, "layer_norm_epsilon", 1e-5),
      norm: "layer",
      mlp: "plain",
      positions: { type: "learned" },
      qkvBias: true,
      projectionBias: true,
      qkNorm: false,
      tied: config["tie_word_embeddings"] !== false,
    };
  },
  storedAs,
};
