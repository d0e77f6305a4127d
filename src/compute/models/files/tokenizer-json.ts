/** The parts of a `tokenizer.json` with byte-level BPE, in the order in which Hugging Face writes their keys. */
import type { Json, JsonObject } from "../../../types.ts";

interface BpeOptions {
  /** Token to id. */
  readonly vocab: JsonObject;
  /** Pairs, or pairs with a space between them; the earliest wins. */
  readonly merges: Json;
  /** A word that is a token as a whole is taken without merging. */
  readonly ignoreMerges: boolean;
}

export const bpeModel = ({ vocab, merges, ignoreMerges }: BpeOptions): JsonObject => ({
  type: "BPE",
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: false,
  ignore_merges: ignoreMerges,
  vocab,
  merges,
});

export const byteLevel = (useRegex: boolean, trimOffsets: boolean): JsonObject => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: trimOffsets,
  use_regex: useRegex,
});

export const split = (regex: string): JsonObject => ({ type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false });

export const sequence = (...pretokenizers: readonly Json[]): JsonObject => ({ type: "Sequence", pretokenizers });
