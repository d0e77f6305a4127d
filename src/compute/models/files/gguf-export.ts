/** A model as one GGUF file that llama.cpp reads: the inverse of opening one. */
import { ModelError, TokenizerError, expected } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import type { GgufTensorToWrite, GgufWriteType } from "./gguf.ts";
import { writeGguf } from "./gguf.ts";
import type { GgufArchitecture } from "./gguf-config.ts";
import { isGgufArchitecture, llama3Divisor } from "./gguf-config.ts";
import type { GgufEntry } from "./gguf-header.ts";
import { familyNameOf, tokenTypes } from "./gguf-tokenizer.ts";
import { changeOf, ggufName, moveRotaryRows, transpose } from "./gguf-weights.ts";
import type { ModelFiles } from "./model-folder.ts";
import type { StoredTensor } from "./weight-source.ts";

type Entries = Map<string, GgufEntry>;

const fileTypes: Readonly<Record<GgufWriteType, number>> = { F32: 0, F16: 1, Q8_0: 7 };
/** Constants that older folders store among the weights. */
const constants = /(rotary_emb\.inv_freq|\.attn\.(masked_)?bias)$/;

/**
 * Writes a model with its tokenizer as GGUF, one tensor in memory at a time. Matrices are stored as `type`, vectors as F32,
 * rows that do not fill Q8_0 blocks as F16. ModelError or TokenizerError for what the format has no place for.
 */
export async function exportGguf(path: string, files: Omit<ModelFiles, "close">, type: GgufWriteType): Promise<void> {
  const architecture = files.config["model_type"];
  if (!isGgufArchitecture(architecture)) {
    throw new ModelError(expected(`${files.name}: model_type`, "llama, qwen2, qwen3 or gpt2", JSON.stringify(architecture ?? null)));
  }
  const metadata: Entries = new Map();
  metadata.set("general.architecture", text(architecture));
  metadata.set("general.name", text(files.name));
  metadata.set("general.file_type", count(fileTypes[type]));
  if (type === "Q8_0") metadata.set("general.quantization_version", count(2));
  const rope = architecture === "gpt2" ? undefined : addLlamaLike(metadata, architecture, files);
  if (architecture === "gpt2") addGpt2(metadata, files);
  addTokenizer(metadata, files);
  await writeGguf(path, { metadata, tensors: [...(rope ?? []), ...tensorsOf(architecture, files, type)] });
}

function text(value: string): GgufEntry {
  return { type: "string", value };
}
function count(value: number): GgufEntry {
  return { type: "u32", value };
}
function real(value: number): GgufEntry {
  return { type: "f32", value };
}

type Source = Pick<ModelFiles, "name" | "config">;

function required({ name, config }: Source, key: string): number {
  const value = config[key];
  if (typeof value === "number") return value;
  throw new ModelError(expected(`${name}: config.json`, `a number ${key}`, JSON.stringify(value ?? null)));
}

function addGpt2(metadata: Entries, source: Source): void {
  const hidden = required(source, "n_embd");
  const inner = source.config["n_inner"];
  metadata.set("gpt2.context_length", count(required(source, "n_positions")));
  metadata.set("gpt2.embedding_length", count(hidden));
  metadata.set("gpt2.feed_forward_length", count(typeof inner === "number" ? inner : 4 * hidden));
  metadata.set("gpt2.block_count", count(required(source, "n_layer")));
  metadata.set("gpt2.attention.head_count", count(required(source, "n_head")));
  metadata.set("gpt2.attention.layer_norm_epsilon", real(required(source, "layer_norm_epsilon")));
}

/** Returns the tensor of rotary divisors, if the model needs one. */
function addLlamaLike(metadata: Entries, architecture: GgufArchitecture, source: Source): GgufTensorToWrite[] {
  const { config } = source;
  const hidden = required(source, "hidden_size");
  const heads = required(source, "num_attention_heads");
  const headSize = typeof config["head_dim"] === "number" ? config["head_dim"] : hidden / heads;
  // Newer configurations keep all rotary settings in one object.
  const scaling = (config["rope_parameters"] ?? config["rope_scaling"] ?? {}) as JsonObject;
  const theta = Number(scaling["rope_theta"] ?? config["rope_theta"] ?? 10000);
  const set = (key: string, entry: GgufEntry): void => void metadata.set(`${architecture}.${key}`, entry);
  set("context_length", count(required(source, "max_position_embeddings")));
  set("embedding_length", count(hidden));
  set("block_count", count(required(source, "num_hidden_layers")));
  set("feed_forward_length", count(required(source, "intermediate_size")));
  set("attention.head_count", count(heads));
  set("attention.head_count_kv", count(Number(config["num_key_value_heads"] ?? heads)));
  set("attention.layer_norm_rms_epsilon", real(required(source, "rms_norm_eps")));
  set("attention.key_length", count(headSize));
  set("attention.value_length", count(headSize));
  set("vocab_size", count(required(source, "vocab_size")));
  set("rope.freq_base", real(theta));
  set("rope.dimension_count", count(headSize));
  const kind = scaling["rope_type"] ?? scaling["type"] ?? "default";
  if (kind === "llama3") return [llama3Divisors(scaling, { theta, headSize })];
  if (kind === "default") return [];
  if (kind !== "linear" && kind !== "yarn") {
    throw new ModelError(expected(`${source.name}: rope_type`, "default, linear, yarn or llama3", JSON.stringify(kind)));
  }
  set("rope.scaling.type", text(kind));
  set("rope.scaling.factor", real(Number(scaling["factor"])));
  const original = scaling["original_max_position_embeddings"];
  if (typeof original === "number") set("rope.scaling.original_context_length", count(original));
  return [];
}

interface Rope {
  readonly theta: number;
  readonly headSize: number;
}

function llama3Divisors(scaling: JsonObject, { theta, headSize }: Rope): GgufTensorToWrite {
  const settings = {
    factor: Number(scaling["factor"]),
    low: Number(scaling["low_freq_factor"]),
    high: Number(scaling["high_freq_factor"]),
    original: Number(scaling["original_max_position_embeddings"]),
  };
  const data = Float32Array.from({ length: headSize / 2 }, (_, i) => llama3Divisor(theta ** ((-2 * i) / headSize), settings));
  return { name: "rope_freqs.weight", shape: [data.length], type: "F32", data };
}

function tensorsOf(architecture: GgufArchitecture, files: Omit<ModelFiles, "close">, type: GgufWriteType): GgufTensorToWrite[] {
  const { weights, config } = files;
  return [...weights.tensors.values()].flatMap((tensor) => {
    if (constants.test(tensor.name) || (tensor.name === "lm_head.weight" && config["tie_word_embeddings"] === true)) return [];
    // The published gpt2 folders leave the prefix out.
    const name = ggufName(architecture, tensor.name) ?? ggufName(architecture, `transformer.${tensor.name}`);
    if (name === undefined) throw new ModelError(expected(files.name, `tensors of a dense ${architecture} model`, tensor.name));
    const change = changeOf(architecture, name, config);
    const shape = change.type === "transposed" ? [...tensor.shape].reverse() : tensor.shape;
    return [{ name, shape, type: storedAs(shape, type), data: () => converted(files, tensor, change) }];
  });
}

function storedAs(shape: readonly number[], type: GgufWriteType): GgufWriteType {
  if (shape.length < 2) return "F32";
  return type === "Q8_0" && shape.at(-1)! % 32 !== 0 ? "F16" : type;
}

type Weights = Pick<ModelFiles, "weights">;

async function converted({ weights }: Weights, tensor: StoredTensor, change: ReturnType<typeof changeOf>): Promise<Float32Array> {
  const data = await weights.read(tensor.name);
  if (change.type === "transposed") return transpose(data, tensor.shape);
  if (change.type === "interleaved") moveRotaryRows(data, { rows: tensor.shape[0] ?? 0, heads: change.heads, to: "pairs" });
  return data;
}

interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

function addTokenizer(metadata: Entries, files: Omit<ModelFiles, "close">): void {
  const { tokenizer, tokenizerConfig, config } = files;
  const model = tokenizer["model"] as JsonObject | undefined;
  const family = familyNameOf(tokenizer["pre_tokenizer"]);
  if (model?.["type"] !== "BPE" || family === undefined) {
    const want = "a byte-level BPE of GPT-2, SmolLM, Qwen2 or Llama 3";
    throw new TokenizerError(expected(`${files.name}: tokenizer.json`, want, "another tokenizer"));
  }
  const vocab = model["vocab"] as Readonly<Record<string, number>>;
  const added = (tokenizer["added_tokens"] ?? []) as unknown as readonly AddedToken[];
  const { tokens, types, ids } = tokenTable(vocab, added, Number(config["vocab_size"] ?? 0));
  metadata.set("tokenizer.ggml.model", text("gpt2"));
  metadata.set("tokenizer.ggml.pre", text(family));
  metadata.set("tokenizer.ggml.tokens", { type: "array", items: "string", value: tokens });
  metadata.set("tokenizer.ggml.token_type", { type: "array", items: "i32", value: types });
  const pairs = model["merges"] as readonly (string | readonly string[])[];
  const merges = pairs.map((pair) => (typeof pair === "string" ? pair : pair.join(" ")));
  metadata.set("tokenizer.ggml.merges", { type: "array", items: "string", value: merges });
  for (const [key, name] of [["bos", "bos"], ["eos", "eos"], ["unknown", "unk"], ["padding", "pad"]] as const) {
    const id = specialId(ids, tokenizerConfig[`${name}_token`]);
    if (id !== undefined) metadata.set(`tokenizer.ggml.${key}_token_id`, count(id));
  }
  const addBos = JSON.stringify(tokenizer["post_processor"] ?? null).includes('"SpecialToken"');
  metadata.set("tokenizer.ggml.add_bos_token", { type: "bool", value: addBos });
  const template = tokenizerConfig["chat_template"];
  if (typeof template === "string") metadata.set("tokenizer.chat_template", text(template));
}

/** Token and type by id; ids that no token has, up to the rows of the embedding, are unused. */
function tokenTable(vocab: Readonly<Record<string, number>>, added: readonly AddedToken[], size: number) {
  const ids = new Map(Object.entries(vocab));
  for (const { content, id } of added) ids.set(content, id);
  const length = [...ids.values()].reduce((largest, id) => Math.max(largest, id + 1), size);
  const tokens = Array.from({ length }, (_, id) => `[PAD${id}]`);
  const types: number[] = Array.from({ length }, () => tokenTypes.unused);
  for (const [token, id] of ids) {
    tokens[id] = token;
    types[id] = tokenTypes.normal;
  }
  for (const { id, special } of added) types[id] = special ? tokenTypes.control : tokenTypes.userDefined;
  return { tokens, types, ids };
}

/** A special token is text, or an object with its text. */
function specialId(ids: ReadonlyMap<string, number>, token: Json | undefined): number | undefined {
  const content = typeof token === "object" && token !== null ? (token as JsonObject)["content"] : token;
  return typeof content === "string" ? ids.get(content) : undefined;
}
