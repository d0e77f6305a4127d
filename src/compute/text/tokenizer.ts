/**
 * Text to token ids and back, over @huggingface/tokenizers. Byte-level tokenizers only (GPT-2, Llama 3, Qwen, SmolLM2), so that
 * decoding is exact: ids are bytes, and bytes become characters once for the whole list.
 */
import * as library from "@huggingface/tokenizers";
import { TokenizerError, expected, messageOf } from "../../errors.ts";
import type { Json, JsonObject } from "../../types.ts";
import { tokenText } from "./chat-template.ts";

/** What is used of the library; its own declarations do not resolve under NodeNext. */
interface Encoder {
  readonly normalizer: ((text: string) => string) | null;
  readonly pre_tokenizer: ((text: string, options: { readonly section_index: number }) => string[]) | null;
  readonly model: ((pieces: readonly string[]) => string[]) | null;
  encode(text: string, options: { readonly add_special_tokens: boolean }): { readonly ids: number[] };
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
}
const { Tokenizer: Library } = library as unknown as { readonly Tokenizer: new (json: JsonObject, config: JsonObject) => Encoder };

interface SpecialToken {
  readonly id: number;
  readonly text: string;
  /** False for added tokens that are text to people, such as `<tool_call>` of Qwen; `decode` with skipSpecial keeps those. */
  readonly special: boolean;
}

export interface Tokenizer {
  /** One more than the largest id. */
  readonly size: number;
  /** Bytes of the longest token: a text of more than n times as many has more than n tokens. */
  readonly longestToken: number;
  /** Ids that end a turn; the first is the tokenizer's own end token. */
  readonly eosIds: readonly number[];
  readonly bosId: number | undefined;
  /** All added tokens, in id order. */
  readonly specials: readonly SpecialToken[];
  /** Ids of text in which special tokens are recognised; none are added. */
  encode(text: string): number[];
  /** Ids of text that is not trusted: no special token comes out, whatever the text says. */
  encodePlain(text: string): number[];
  /** Text of ids. Bytes that are no UTF-8, and ids that only pad a model's vocabulary, become U+FFFD. */
  decode(ids: readonly number[], options?: { readonly skipSpecial?: boolean }): string;
  /** The bytes that an id stands for. */
  bytesOf(id: number): Uint8Array;
  /** False for ids that only pad a model's vocabulary. */
  hasToken(id: number): boolean;
  idOf(token: string): number | undefined;
}

/** Emits text as ids come, complete characters only. */
interface StreamDecoder {
  /** The characters that `id` completes, possibly none. */
  push(id: number): string;
  /** What is left at the end of the sequence. */
  end(): string;
}

/** Tokens that end a turn in the families we know, besides the tokenizer's `eos_token`. */
const END_TOKENS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"];

/** Opens a tokenizer from the parsed tokenizer.json and tokenizer_config.json. Throws `TokenizerError` for what it cannot do exactly. */
export function openTokenizer(tokenizerJson: JsonObject, tokenizerConfig: JsonObject): Tokenizer {
  if (!hasType(tokenizerJson.decoder, "ByteLevel")) {
    const remedy = "use a model of the GPT-2, Llama 3, Qwen or SmolLM2 families";
    throw new TokenizerError(expected("tokenizer.json", "a byte-level decoder", describe(tokenizerJson.decoder), remedy));
  }
  try {
    return new ByteLevelTokenizer(tokenizerJson, tokenizerConfig);
  } catch (cause) {
    if (cause instanceof TokenizerError) throw cause;
    throw new TokenizerError(`tokenizer.json: cannot be read: ${messageOf(cause)}`, { cause });
  }
}

export function streamDecoder(tokenizer: Tokenizer, options: { readonly skipSpecial?: boolean } = {}): StreamDecoder {
  const hidden = new Set(options.skipSpecial === true ? tokenizer.specials.filter((token) => token.special).map((token) => token.id) : []);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return {
    push: (id) => (hidden.has(id) ? "" : decoder.decode(tokenizer.bytesOf(id), { stream: true })),
    end: () => decoder.decode(),
  };
}

class ByteLevelTokenizer implements Tokenizer {
  readonly size: number;
  readonly longestToken: number;
  readonly eosIds: readonly number[];
  readonly bosId: number | undefined;
  readonly specials: readonly SpecialToken[];
  private readonly encoder: Encoder;
  private readonly special: ReadonlyMap<number, SpecialToken>;

  constructor(tokenizerJson: JsonObject, tokenizerConfig: JsonObject) {
    this.encoder = new Library({ ...tokenizerJson, pre_tokenizer: unicodeDigits(tokenizerJson.pre_tokenizer) }, tokenizerConfig);
    this.specials = addedTokens(tokenizerJson.added_tokens);
    this.special = new Map(this.specials.map((token) => [token.id, token]));
    const { vocab } = tokenizerJson.model as { readonly vocab: Readonly<Record<string, number>> };
    const texts = this.specials.map(({ text }) => Buffer.byteLength(text));
    this.longestToken = [...Object.keys(vocab).map(({ length }) => length), ...texts].reduce((a, b) => Math.max(a, b), 1);
    this.size = [...Object.values(vocab), ...this.special.keys()].reduce((largest, id) => Math.max(largest, id), -1) + 1;
    const own = tokenText(tokenizerConfig.eos_token);
    const ends = [...(own === undefined ? [] : [own]), ...END_TOKENS].map((token) => this.idOf(token));
    this.eosIds = [...new Set(ends.filter((id) => id !== undefined))];
    const begin = tokenText(tokenizerConfig.bos_token);
    this.bosId = begin === undefined ? undefined : this.idOf(begin);
  }

  encode(text: string): number[] {
    return text === "" ? [] : this.encoder.encode(text, { add_special_tokens: false }).ids;
  }

  encodePlain(text: string): number[] {
    const { normalizer, pre_tokenizer: split, model } = this.encoder;
    const normal = normalizer === null ? text : normalizer(text);
    if (normal === "" || model === null) return [];
    const tokens = model(split === null ? [normal] : split(normal, { section_index: 0 }));
    return tokens.flatMap((token) => {
      const id = this.idOf(token);
      return id !== undefined && !this.special.has(id) ? [id] : this.byteIds(token);
    });
  }

  /** A token spelled by its bytes: for one whose whole word is a special token of the vocabulary. */
  private byteIds(token: string): number[] {
    return Array.from(token, (character) => {
      const id = this.idOf(character);
      if (id !== undefined && !this.special.has(id)) return id;
      const got = `none for ${JSON.stringify(character)}`;
      throw new TokenizerError(expected("tokenizer.json", "every byte as a plain token of the vocabulary", got));
    });
  }

  decode(ids: readonly number[], options: { readonly skipSpecial?: boolean } = {}): string {
    const decoder = streamDecoder(this, options);
    let text = "";
    for (const id of ids) text += decoder.push(id);
    return text + decoder.end();
  }

  bytesOf(id: number): Uint8Array {
    const special = this.special.get(id);
    if (special !== undefined) return new TextEncoder().encode(special.text);
    const token = this.encoder.id_to_token(id);
    if (token === undefined) return REPLACEMENT;
    return Uint8Array.from(Array.from(token), (character) => BYTE_OF.get(character) ?? 0x3f);
  }

  hasToken(id: number): boolean {
    return this.special.has(id) || this.encoder.id_to_token(id) !== undefined;
  }

  idOf(token: string): number | undefined {
    return this.encoder.token_to_id(token);
  }
}

/**
 * GPT-2's alphabet: each of the 256 bytes as one printable character. Printable Latin-1 stands for itself, the others for U+0100 and on.
 */
export const BYTE_ALPHABET: readonly string[] = byteAlphabet();
const BYTE_OF: ReadonlyMap<string, number> = new Map(BYTE_ALPHABET.map((character, byte) => [character, byte]));

const REPLACEMENT = new TextEncoder().encode("\ufffd");

function byteAlphabet(): string[] {
  let next = 0x100;
  const printable = (byte: number): boolean => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

type AddedToken = { readonly id: number; readonly content: string; readonly special?: boolean };

function addedTokens(value: Json | undefined): SpecialToken[] {
  const entries = (Array.isArray(value) ? value : []) as readonly AddedToken[];
  return entries.map(({ id, content, special }) => ({ id, text: content, special: special === true })).sort((a, b) => a.id - b.id);
}

/** `Digits` means every numeric character to Python's tokenizers and 0 to 9 to this library; a split by class means the same to both. */
function unicodeDigits(part: Json | undefined): Json {
  if (part === null || part === undefined || typeof part !== "object" || Array.isArray(part)) return part ?? null;
  const { type, individual_digits: single, pretokenizers } = part as JsonObject;
  const pattern = { Regex: single === true ? "\\p{N}" : "\\p{N}+" };
  if (type === "Digits") return { type: "Split", pattern, behavior: "Isolated", invert: false };
  return Array.isArray(pretokenizers) ? { ...(part as JsonObject), pretokenizers: pretokenizers.map(unicodeDigits) } : part;
}

function hasType(part: Json | undefined, type: string): boolean {
  if (part === null || typeof part !== "object" || Array.isArray(part)) return false;
  const { type: own, decoders } = part as { readonly type?: Json; readonly decoders?: readonly Json[] };
  return own === type || (decoders ?? []).some((inner) => hasType(inner, type));
}

function describe(part: Json | undefined): string {
  return part === null || part === undefined ? "none" : JSON.stringify((part as JsonObject).type ?? part).slice(0, 60);
}
