/** GGUF tensors under Hugging Face names and in Hugging Face's layout. */
import { ModelError, expected } from "../../../errors.ts";
import type { JsonObject } from "../../../types.ts";
import type { GgufArchitecture } from "./gguf-config.ts";
import type { GgufSource } from "./gguf.ts";
import type { StoredTensor, WeightSource } from "./weight-source.ts";

/** GGUF stem -> HF stem, in front of ".weight" or ".bias"; N stands for the layer. */
const llamaStems: Readonly<Record<string, string>> = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
  "blk.N.attn_norm": "model.layers.N.input_layernorm",
  "blk.N.attn_q": "model.layers.N.self_attn.q_proj",
  "blk.N.attn_k": "model.layers.N.self_attn.k_proj",
  "blk.N.attn_v": "model.layers.N.self_attn.v_proj",
  "blk.N.attn_output": "model.layers.N.self_attn.o_proj",
  "blk.N.attn_q_norm": "model.layers.N.self_attn.q_norm",
  "blk.N.attn_k_norm": "model.layers.N.self_attn.k_norm",
  "blk.N.ffn_norm": "model.layers.N.post_attention_layernorm",
  "blk.N.ffn_gate": "model.layers.N.mlp.gate_proj",
  "blk.N.ffn_up": "model.layers.N.mlp.up_proj",
  "blk.N.ffn_down": "model.layers.N.mlp.down_proj",
};

const gpt2Stems: Readonly<Record<string, string>> = {
  token_embd: "transformer.wte",
  position_embd: "transformer.wpe",
  output_norm: "transformer.ln_f",
  output: "lm_head",
  "blk.N.attn_norm": "transformer.h.N.ln_1",
  "blk.N.attn_qkv": "transformer.h.N.attn.c_attn",
  "blk.N.attn_output": "transformer.h.N.attn.c_proj",
  "blk.N.ffn_norm": "transformer.h.N.ln_2",
  "blk.N.ffn_up": "transformer.h.N.mlp.c_fc",
  "blk.N.ffn_down": "transformer.h.N.mlp.c_proj",
};

const stemTables: Readonly<Record<GgufArchitecture, Readonly<Record<string, string>>>> = {
  llama: llamaStems,
  qwen2: llamaStems,
  qwen3: llamaStems,
  gpt2: gpt2Stems,
};

/** Tables of rotary constants, which the configuration already says. */
const derived = /^(rope_freqs\.weight|blk\.\d+\.attn_rot_embd\.weight)$/;

/** Hugging Face's name of a GGUF tensor, or undefined if the architecture has no such tensor. */
export function huggingFaceName(architecture: GgufArchitecture, name: string): string | undefined {
  const match = /^(.+)\.(weight|bias)$/.exec(name);
  if (match === null) return undefined;
  const layer = /^blk\.(\d+)\./.exec(name)?.[1];
  const stem = match[1]!.replace(/^blk\.\d+\./, "blk.N.");
  const found = Object.hasOwn(stemTables[architecture], stem) ? stemTables[architecture][stem] : undefined;
  return found === undefined ? undefined : `${found.replace(".N.", `.${layer}.`)}.${match[2]}`;
}

/** GGUF's name of a Hugging Face tensor, or undefined if the architecture has no such tensor. */
export function ggufName(architecture: GgufArchitecture, name: string): string | undefined {
  const match = /^(.+)\.(weight|bias)$/.exec(name);
  const layer = /\.(?:layers|h)\.(\d+)\./.exec(name)?.[1];
  const stem = match?.[1]!.replace(/\.(layers|h)\.\d+\./, ".$1.N.");
  const found = Object.entries(stemTables[architecture]).find(([, huggingFace]) => huggingFace === stem)?.[0];
  return found === undefined ? undefined : `${found.replace("blk.N.", `blk.${layer}.`)}.${match![2]}`;
}

/** How the converter of llama.cpp changed a tensor: rotary rows interleaved (llama), or a Conv1D matrix transposed (gpt2). */
type Change = { readonly type: "none" } | { readonly type: "interleaved"; readonly heads: number } | { readonly type: "transposed" };

/** The change of the tensor that is called `name` in GGUF. */
export function changeOf(architecture: GgufArchitecture, name: string, config: JsonObject): Change {
  if (architecture === "llama" && /\.attn_[qk]\.(weight|bias)$/.test(name)) {
    return { type: "interleaved", heads: Number(name.includes("attn_q") ? config["num_attention_heads"] : config["num_key_value_heads"]) };
  }
  if (architecture === "gpt2" && /\.(attn_qkv|attn_output|ffn_up|ffn_down)\.weight$/.test(name)) return { type: "transposed" };
  return { type: "none" };
}

/** Views a GGUF file as the weights of a Hugging Face folder. ModelError at a tensor that the architecture does not have. */
export function ggufWeights(source: GgufSource, architecture: GgufArchitecture, config: JsonObject): WeightSource {
  const tensors = new Map<string, StoredTensor>();
  const origins = new Map<string, StoredTensor>();
  for (const origin of source.tensors.values()) {
    if (derived.test(origin.name)) continue;
    const name = huggingFaceName(architecture, origin.name);
    if (name === undefined) throw new ModelError(expected(source.path, `tensors of a dense ${architecture} model`, origin.name));
    const transposed = changeOf(architecture, origin.name, config).type === "transposed";
    tensors.set(name, { name, shape: transposed ? [...origin.shape].reverse() : origin.shape, type: origin.type });
    origins.set(name, origin);
  }
  return {
    path: source.path,
    tensors,
    read: async (name) => {
      const origin = origins.get(name);
      if (origin === undefined) throw new ModelError(expected(source.path, `a tensor named ${name}`, `${tensors.size} tensors without it`));
      const data = await source.read(origin.name);
      const change = changeOf(architecture, origin.name, config);
      if (change.type === "transposed") return transpose(data, origin.shape);
      if (change.type === "interleaved") moveRotaryRows(data, { rows: origin.shape[0] ?? 0, heads: change.heads, to: "halves" });
      return data;
    },
    close: () => source.close(),
  };
}

interface RotaryRows {
  readonly rows: number;
  readonly heads: number;
  readonly to: "halves" | "pairs";
}

/**
 * In place. llama.cpp pairs rotary rows as (0, 1), (2, 3), ...; Hugging Face pairs row i with row i + half:
 * row 2i + s of a head in pairs is row s * half + i in halves.
 */
export function moveRotaryRows(data: Float32Array, { rows, heads, to }: RotaryRows): void {
  const width = data.length / rows;
  const headRows = rows / heads;
  const half = headRows / 2;
  for (let start = 0; start < data.length; start += headRows * width) {
    const head = data.slice(start, start + headRows * width);
    for (let row = 0; row < headRows; row++) {
      const inHalves = (row & 1) * half + (row >> 1);
      const [from, target] = to === "halves" ? [row, inHalves] : [inHalves, row];
      data.set(head.subarray(from * width, (from + 1) * width), start + target * width);
    }
  }
}

/** Rows become columns; `shape` is that of `data`. */
export function transpose(data: Float32Array, shape: readonly number[]): Float32Array {
  const [rows = 0, columns = 0] = shape;
  const out = new Float32Array(data.length);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) out[column * rows + row] = data[row * columns + column]!;
  }
  return out;
}
