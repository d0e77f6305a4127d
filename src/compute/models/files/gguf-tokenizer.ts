/** The tokenizer inside a GGUF file as the objects of `tokenizer.json`, `tokenizer_config.json` and `generation_config.json`. */
import { TokenizerError, expected } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import type { GgufSource } from "./gguf.ts";
import { GgufReader } from "./gguf-config.ts";
import { bpeModel, byteLevel, sequence, split } from "./tokenizer-json.ts";

/** What surrounds the byte-level BPE model in the `tokenizer.json` of a family. */
interface Family {
  readonly normalizer: Json;
  readonly preTokenizer: Json;
  readonly decoder: Json;
  readonly ignoreMerges: boolean;
  /** Whether a sequence starts with the BOS token where the file does not say. */
  readonly addBos: boolean;
}

const decoder: JsonObject = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };

/** The pattern that Llama 3 and Qwen2 share, but for how many digits stay together. */
const wordPattern = (digits: string): string =>
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

const gpt2Family: Family = { normalizer: null, preTokenizer: byteLevel(true, true), decoder, ignoreMerges: false, addBos: false };
const qwen2Family: Family = {
  normalizer: { type: "NFC" },
  preTokenizer: sequence(split(wordPattern(String.raw`\p{N}`)), byteLevel(false, false)),
  decoder: byteLevel(false, false),
  ignoreMerges: false,
  addBos: false,
};

/** Keys are the values of `tokenizer.ggml.pre`. */
const families: Readonly<Record<string, Family>> = {
  "gpt-2": gpt2Family,
  // Digits one by one, written as a split: the same as {type: "Digits", individual_digits: true} for every Unicode number.
  smollm: { ...gpt2Family, preTokenizer: sequence(split(String.raw`\p{N}`), byteLevel(true, true)) },
  qwen2: qwen2Family,
  "llama-bpe": {
    normalizer: null,
    preTokenizer: sequence(split(wordPattern(String.raw`\p{N}{1,3}`)), byteLevel(false, true)),
    decoder,
    ignoreMerges: true,
    addBos: true,
  },
};

/** Token types of GGUF that matter here. */
export const tokenTypes = { normal: 1, control: 3, userDefined: 4, unused: 5 } as const;

/**
 * Contractions as tokenizers trained here write them, in a syntax without inline flags: the same as Qwen2's but for those of
 * mixed case ('Ll), which the format has no family for.
 */
const trainedContractions = "'(?:[sdmtSDMT]|ll|LL|ve|VE|re|RE)|";

/** The value of `tokenizer.ggml.pre` for the pre-tokenizer of a `tokenizer.json`, or undefined if it is of no known family. */
export function familyNameOf(preTokenizer: Json | undefined): string | undefined {
  const form = splittersOf(preTokenizer);
  return Object.keys(families).find((name) => splittersOf(families[name]!.preTokenizer) === form);
}

/** The patterns that text is split by, in order; what does not change ids is left out. */
function splittersOf(preTokenizer: Json | undefined): string {
  const parts = (preTokenizer as JsonObject | undefined)?.["pretokenizers"];
  const list = (Array.isArray(parts) ? parts : [preTokenizer]) as (JsonObject | undefined)[];
  const patterns = list.map((part) => {
    if (part?.["type"] === "Digits") return part["individual_digits"] === true ? String.raw`\p{N}` : "digits";
    if (part?.["type"] === "ByteLevel") return `bytes ${part["use_regex"] !== false} ${part["add_prefix_space"] === true}`;
    const regex = part?.["type"] === "Split" ? (part["pattern"] as JsonObject)["Regex"] : undefined;
    return typeof regex === "string" ? regex.replace(trainedContractions, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|") : part?.["type"];
  });
  return JSON.stringify(patterns);
}

interface GgufTokenizer {
  readonly tokenizer: JsonObject;
  readonly tokenizerConfig: JsonObject;
  readonly generationConfig: JsonObject;
}

/** TokenizerError if the vocabulary is not a byte-level BPE of a known family. */
export function ggufTokenizer(source: GgufSource): GgufTokenizer {
  const reader = new GgufReader(source);
  const family = familyOf(source, reader);
  const tokens = list(source, "tokenizer.ggml.tokens", "string") as readonly string[];
  const kinds = list(source, "tokenizer.ggml.token_type", "i32") as readonly number[];
  if (kinds.length !== tokens.length) {
    throw new TokenizerError(expected(`${source.path}: tokenizer.ggml.token_type`, `${tokens.length} entries`, `${kinds.length}`));
  }
  const special = specialTokens(reader, tokens);
  const addBos = reader.scalar("tokenizer.ggml.add_bos_token") ?? family.addBos;
  const bos = addBos === true ? special.bos : undefined;
  const merges = list(source, "tokenizer.ggml.merges", "string") as readonly string[];
  return {
    tokenizer: {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: addedTokens(tokens, kinds),
      normalizer: family.normalizer,
      pre_tokenizer: family.preTokenizer,
      post_processor: bos === undefined ? byteLevel(true, false) : bosTemplate(bos),
      decoder: family.decoder,
      model: bpeModel({ vocab: vocabulary(tokens, kinds), merges, ignoreMerges: family.ignoreMerges }),
    },
    tokenizerConfig: tokenizerConfig(reader, special, addBos === true),
    generationConfig: generationConfig(reader),
  };
}

function familyOf(source: GgufSource, reader: GgufReader): Family {
  const kind = reader.text("tokenizer.ggml.model");
  if (kind !== "gpt2") {
    throw new TokenizerError(expected(`${source.path}: tokenizer.ggml.model`, '"gpt2" (byte-level BPE)', JSON.stringify(kind ?? null)));
  }
  const architecture = reader.text("general.architecture");
  const pre = reader.text("tokenizer.ggml.pre") ?? (architecture === "gpt2" ? "gpt-2" : undefined);
  const family = pre !== undefined && Object.hasOwn(families, pre) ? families[pre] : undefined;
  if (family === undefined) {
    const remedy = "use a model folder with its tokenizer.json";
    throw new TokenizerError(expected(`${source.path}: tokenizer.ggml.pre`, Object.keys(families).join(", "), pre ?? "none", remedy));
  }
  return family;
}

function list(source: GgufSource, key: string, items: "string" | "i32"): readonly unknown[] {
  const entry = source.metadata.get(key);
  if (entry?.type === "array" && entry.items === items) return entry.value;
  throw new TokenizerError(expected(`${source.path}: ${key}`, `an array of ${items}`, entry === undefined ? "none" : entry.type));
}

function vocabulary(tokens: readonly string[], kinds: readonly number[]): JsonObject {
  // No prototype: "constructor" and "__proto__" are ordinary tokens.
  const vocab = Object.create(null) as Record<string, number>;
  tokens.forEach((token, id) => {
    if (kinds[id] !== tokenTypes.unused) vocab[token] = id;
  });
  return vocab;
}

function addedTokens(tokens: readonly string[], kinds: readonly number[]): Json[] {
  return tokens.flatMap((content, id) => {
    if (kinds[id] !== tokenTypes.control && kinds[id] !== tokenTypes.userDefined) return [];
    const special = kinds[id] === tokenTypes.control;
    return [{ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special }];
  });
}

interface SpecialToken {
  readonly id: number;
  readonly content: string;
}
type SpecialTokens = Partial<Record<"bos" | "eos" | "unk" | "pad", SpecialToken>>;

function specialTokens(reader: GgufReader, tokens: readonly string[]): SpecialTokens {
  const found: SpecialTokens = {};
  for (const [name, key] of [["bos", "bos"], ["eos", "eos"], ["unk", "unknown"], ["pad", "padding"]] as const) {
    const id = reader.number(`tokenizer.ggml.${key}_token_id`);
    if (id === undefined) continue;
    const content = tokens[id];
    if (content === undefined) {
      const where = `${reader.source.path}: tokenizer.ggml.${key}_token_id`;
      throw new TokenizerError(expected(where, `an id below ${tokens.length}`, `${id}`));
    }
    found[name] = { id, content };
  }
  return found;
}

function bosTemplate({ id, content }: SpecialToken): JsonObject {
  const start = { SpecialToken: { id: content, type_id: 0 } };
  return {
    type: "TemplateProcessing",
    single: [start, { Sequence: { id: "A", type_id: 0 } }],
    pair: [
      start,
      { Sequence: { id: "A", type_id: 0 } },
      { SpecialToken: { id: content, type_id: 1 } },
      { Sequence: { id: "B", type_id: 1 } },
    ],
    special_tokens: { [content]: { id: content, ids: [id], tokens: [content] } },
  };
}

function tokenizerConfig(reader: GgufReader, special: SpecialTokens, addBos: boolean): JsonObject {
  const config: Record<string, Json> = { add_bos_token: addBos, add_prefix_space: false, clean_up_tokenization_spaces: false };
  for (const [name, token] of Object.entries(special)) config[`${name}_token`] = token.content;
  const template = reader.text("tokenizer.chat_template");
  if (template !== undefined) config["chat_template"] = template;
  const context = reader.number(`${reader.text("general.architecture") ?? ""}.context_length`);
  if (context !== undefined) config["model_max_length"] = context;
  return config;
}

function generationConfig(reader: GgufReader): JsonObject {
  const config: Record<string, Json> = {};
  const eos = reader.number("tokenizer.ggml.eos_token_id");
  const endOfTurn = reader.number("tokenizer.ggml.eot_token_id");
  const ends = [...new Set([eos, endOfTurn].filter((id) => id !== undefined))];
  if (ends.length > 0) config["eos_token_id"] = ends.length === 1 ? ends[0]! : ends;
  for (const [name, key] of [["bos_token_id", "bos"], ["pad_token_id", "padding"]] as const) {
    const id = reader.number(`tokenizer.ggml.${key}_token_id`);
    if (id !== undefined) config[name] = id;
  }
  return config;
}
