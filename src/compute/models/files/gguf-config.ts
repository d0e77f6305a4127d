/** GGUF metadata as a Hugging Face `config.json` object, so that a model is built in one way whatever file it came from. */
import { ModelError, expected } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import type { GgufSource } from "./gguf.ts";
import type { GgufScalar } from "./gguf-header.ts";

export type GgufArchitecture = "llama" | "qwen2" | "qwen3" | "gpt2";

const classNames: Readonly<Record<GgufArchitecture, string>> = {
  llama: "LlamaForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
  gpt2: "GPT2LMHeadModel",
};

/** True for the architectures that are read and written. */
export function isGgufArchitecture(name: unknown): name is GgufArchitecture {
  return typeof name === "string" && Object.hasOwn(classNames, name);
}

/** The architecture of a file; ModelError if it is none of those supported. */
export function ggufArchitecture(source: GgufSource): GgufArchitecture {
  const name = source.metadata.get("general.architecture")?.value;
  if (isGgufArchitecture(name)) return name;
  const got = typeof name === "string" ? name : typeof name;
  throw new ModelError(expected(`${source.path}: general.architecture`, Object.keys(classNames).join(", "), got));
}

/** Reads single values; float32 comes back as the shortest decimal that means the same float32 (1e-5, not 9.99999975e-6). */
export class GgufReader {
  readonly source: GgufSource;
  constructor(source: GgufSource) {
    this.source = source;
  }
  scalar(key: string): GgufScalar | undefined {
    const entry = this.source.metadata.get(key);
    if (entry === undefined) return undefined;
    if (entry.type !== "array") return entry.type === "f32" ? shortestDecimal(entry.value as number) : entry.value;
    const values = new Set(entry.items === "array" ? [] : entry.value);
    const [only] = values;
    if (values.size !== 1 || only === undefined) {
      throw new ModelError(expected(`${this.source.path}: ${key}`, "one value for all layers", `${values.size} different values`));
    }
    return only;
  }
  number(key: string): number | undefined {
    const value = this.scalar(key);
    if (value === undefined || typeof value === "number") return value;
    throw new ModelError(expected(`${this.source.path}: ${key}`, "a number", `${typeof value} ${String(value)}`));
  }
  required(key: string): number {
    const value = this.number(key);
    if (value === undefined) throw new ModelError(expected(this.source.path, `metadata ${key}`, "none"));
    return value;
  }
  text(key: string): string | undefined {
    const value = this.scalar(key);
    return typeof value === "string" ? value : undefined;
  }
}

function shortestDecimal(value: number): number {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** The `config.json` that the model had before its conversion, as far as inference and training need it. */
export async function ggufConfig(source: GgufSource): Promise<JsonObject> {
  const architecture = ggufArchitecture(source);
  const reader = new GgufReader(source);
  const embedding = source.tensors.get("token_embd.weight");
  if (embedding === undefined) throw new ModelError(expected(source.path, "a tensor named token_embd.weight", "none"));
  const common = {
    architectures: [classNames[architecture]],
    model_type: architecture,
    vocab_size: embedding.shape[0] ?? 0,
    tie_word_embeddings: !source.tensors.has("output.weight"),
    bos_token_id: reader.number("tokenizer.ggml.bos_token_id") ?? null,
    eos_token_id: reader.number("tokenizer.ggml.eos_token_id") ?? null,
  };
  return architecture === "gpt2" ? { ...common, ...gpt2Config(reader) } : { ...common, ...(await llamaLikeConfig(reader, architecture)) };
}

function gpt2Config(reader: GgufReader): JsonObject {
  const context = reader.required("gpt2.context_length");
  return {
    activation_function: "gelu_new",
    layer_norm_epsilon: reader.required("gpt2.attention.layer_norm_epsilon"),
    n_ctx: context,
    n_embd: reader.required("gpt2.embedding_length"),
    n_head: reader.required("gpt2.attention.head_count"),
    n_inner: reader.required("gpt2.feed_forward_length"),
    n_layer: reader.required("gpt2.block_count"),
    n_positions: context,
  };
}

async function llamaLikeConfig(reader: GgufReader, architecture: GgufArchitecture): Promise<JsonObject> {
  const hidden = reader.required(`${architecture}.embedding_length`);
  const heads = reader.required(`${architecture}.attention.head_count`);
  const rotated = reader.number(`${architecture}.rope.dimension_count`);
  const headSize = reader.number(`${architecture}.attention.key_length`) ?? rotated ?? hidden / heads;
  if (rotated !== undefined && rotated !== headSize) {
    const where = `${reader.source.path}: ${architecture}.rope.dimension_count`;
    throw new ModelError(expected(where, `the head size ${headSize}`, `${rotated}`, "partly rotated heads are not supported"));
  }
  const theta = reader.number(`${architecture}.rope.freq_base`) ?? 10000;
  return {
    // Qwen2 has no such setting: its q, k and v always have biases.
    ...(architecture === "qwen2" ? {} : { attention_bias: reader.source.tensors.has("blk.0.attn_q.bias") }),
    head_dim: headSize,
    hidden_act: "silu",
    hidden_size: hidden,
    intermediate_size: reader.required(`${architecture}.feed_forward_length`),
    max_position_embeddings: reader.required(`${architecture}.context_length`),
    num_attention_heads: heads,
    num_hidden_layers: reader.required(`${architecture}.block_count`),
    num_key_value_heads: reader.number(`${architecture}.attention.head_count_kv`) ?? heads,
    rms_norm_eps: reader.required(`${architecture}.attention.layer_norm_rms_epsilon`),
    rope_scaling: await ropeScaling(reader, architecture, { theta, headSize }),
    rope_theta: theta,
  };
}

interface Rope {
  readonly theta: number;
  readonly headSize: number;
}

async function ropeScaling(reader: GgufReader, architecture: GgufArchitecture, rope: Rope): Promise<Json> {
  if (reader.source.tensors.has("rope_freqs.weight")) return llama3Scaling(reader.source, rope);
  const type = reader.text(`${architecture}.rope.scaling.type`) ?? "none";
  if (type === "none") return null;
  const factor = reader.required(`${architecture}.rope.scaling.factor`);
  if (type === "linear") return { rope_type: "linear", type: "linear", factor };
  if (type === "yarn") {
    const original = reader.required(`${architecture}.rope.scaling.original_context_length`);
    return { rope_type: "yarn", type: "yarn", factor, original_max_position_embeddings: original };
  }
  throw new ModelError(expected(`${reader.source.path}: ${architecture}.rope.scaling.type`, "none, linear or yarn", type));
}

/**
 * Llama 3.1's scaling is stored as one divisor a frequency, not as its settings. All released models share three of the
 * four settings; the fourth is the largest divisor. The settings are accepted only if they give the stored divisors again.
 */
async function llama3Scaling(source: GgufSource, rope: Rope): Promise<JsonObject> {
  const stored = await source.read("rope_freqs.weight");
  const settings = { low: 1, high: 4, original: 8192, factor: Number(stored.reduce((a, b) => Math.max(a, b), 1).toPrecision(6)) };
  stored.forEach((divisor, i) => {
    const want = llama3Divisor(rope.theta ** ((-2 * i) / rope.headSize), settings);
    if (Math.abs(divisor - want) > 1e-4 * want) {
      throw new ModelError(expected(`${source.path}: rope_freqs.weight[${i}]`, `${want} of Llama 3.1's scaling`, `${divisor}`));
    }
  });
  return {
    rope_type: "llama3",
    factor: settings.factor,
    low_freq_factor: settings.low,
    high_freq_factor: settings.high,
    original_max_position_embeddings: settings.original,
  };
}

type Llama3Settings = Readonly<Record<"low" | "high" | "original" | "factor", number>>;

/** By how much Llama 3.1's scaling divides a rotary frequency (radians a token). */
export function llama3Divisor(frequency: number, { low, high, original, factor }: Llama3Settings): number {
  const turns = (original * frequency) / (2 * Math.PI);
  if (turns > high) return 1;
  if (turns < low) return factor;
  const smooth = (turns - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}
