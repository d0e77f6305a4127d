/**
 * Byte-level byte-pair encoding, trained: Sennrich et al. 2016, "Neural machine translation of rare words with subword units",
 * over bytes as in GPT-2. Deterministic: the most frequent pair first, ties by the smaller ids.
 */
import { ConfigError, expected } from "../../errors.ts";
import type { JsonObject } from "../../types.ts";
import { bpeModel, byteLevel, sequence, split } from "../models/files/tokenizer-json.ts";
import { BYTE_ALPHABET } from "./tokenizer.ts";

interface BpeOptions {
  /** Size of the whole vocabulary: special tokens, 256 bytes and merges. Fewer come out if no pair occurs twice any more. */
  readonly vocabSize: number;
  /** Special tokens, which get the first ids and are never merged. */
  readonly specials: readonly string[];
  /** How text is cut before merging, in a syntax that JavaScript and Oniguruma both read. */
  readonly pattern?: string;
}

/** Words with the space before them, digits one by one, runs of punctuation, line ends, white space. */
const DEFAULT_PATTERN =
  "'(?:[sdmtSDMT]|ll|LL|ve|VE|re|RE)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** Trains on `texts` and returns a tokenizer.json that @huggingface/tokenizers and Python's `tokenizers` load with the same ids. */
export function trainBpe(texts: Iterable<string>, options: BpeOptions): JsonObject {
  const { vocabSize, specials, pattern = DEFAULT_PATTERN } = options;
  const least = specials.length + 256;
  if (!Number.isInteger(vocabSize) || vocabSize < least) {
    throw new ConfigError(expected("vocabSize", `an integer of at least ${least} (special tokens and 256 bytes)`, String(vocabSize)));
  }
  const tokens = [...specials, ...BYTE_ALPHABET];
  const idOf = new Map(tokens.map((token, id) => [token, id]));
  const merges: [string, string][] = [];
  const words = new Words(countWords(texts, specials, new RegExp(pattern, "gu")), specials.length);
  while (tokens.length < vocabSize) {
    const pair = words.mostFrequent();
    if (pair === undefined) break;
    const [left, right] = pair;
    const token = tokens[left]! + tokens[right]!;
    // Two ways to one token ("a" "bc" and "ab" "c") share its id.
    const id = idOf.get(token) ?? tokens.push(token) - 1;
    idOf.set(token, id);
    words.merge(left, right, id);
    merges.push([tokens[left]!, tokens[right]!]);
  }
  return tokenizerJson(tokens, merges, { specials, pattern });
}

function countWords(texts: Iterable<string>, specials: readonly string[], pattern: RegExp): Map<string, number> {
  const counts = new Map<string, number>();
  const add = (word: string): void => {
    if (word !== "") counts.set(word, (counts.get(word) ?? 0) + 1);
  };
  const escaped = specials.map((special) => special.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).sort((a, b) => b.length - a.length);
  const cut = specials.length === 0 ? undefined : new RegExp(escaped.join("|"), "u");
  for (const text of texts) {
    for (const part of cut === undefined ? [text] : text.split(cut)) {
      let end = 0;
      for (const match of part.matchAll(pattern)) {
        add(part.slice(end, match.index));
        add(match[0]);
        end = match.index + match[0].length;
      }
      add(part.slice(end));
    }
  }
  return counts;
}

/** Ids stay below 2^20, so a pair of them is one exact number. */
const SHIFT = 2 ** 20;

/** All distinct words as id sequences, with the count of every neighbouring pair kept up to date under merges. */
class Words {
  private readonly ids: number[][] = [];
  private readonly counts: number[] = [];
  private readonly pairCounts = new Map<number, number>();
  private readonly pairWords = new Map<number, Set<number>>();
  private readonly heap = new PairHeap();

  constructor(words: ReadonlyMap<string, number>, firstByte: number) {
    const encoder = new TextEncoder();
    for (const [word, count] of words) {
      const ids = Array.from(encoder.encode(word), (byte) => firstByte + byte);
      this.counts.push(count);
      this.ids.push(ids);
      for (let i = 0; i + 1 < ids.length; i++) this.change(ids[i]! * SHIFT + ids[i + 1]!, count, this.ids.length - 1);
    }
    for (const [pair, count] of this.pairCounts) this.heap.push(count, pair);
  }

  /** The pair that occurs most often, at least twice. */
  mostFrequent(): readonly [number, number] | undefined {
    for (;;) {
      const top = this.heap.pop();
      if (top === undefined) return undefined;
      const { count, pair } = top;
      const now = this.pairCounts.get(pair) ?? 0;
      if (now !== count) {
        if (now > 0) this.heap.push(now, pair);
        continue;
      }
      return count < 2 ? undefined : [Math.floor(pair / SHIFT), pair % SHIFT];
    }
  }

  merge(left: number, right: number, merged: number): void {
    const pair = left * SHIFT + right;
    const grown = new Set<number>();
    for (const word of this.pairWords.get(pair) ?? []) {
      const before = this.ids[word]!;
      const after: number[] = [];
      for (let i = 0; i < before.length; i++) {
        const found = before[i] === left && before[i + 1] === right;
        after.push(found ? merged : before[i]!);
        if (found) i++;
      }
      if (after.length === before.length) continue;
      const count = this.counts[word]!;
      for (let i = 0; i + 1 < before.length; i++) this.change(before[i]! * SHIFT + before[i + 1]!, -count, word);
      for (let i = 0; i + 1 < after.length; i++) {
        this.change(after[i]! * SHIFT + after[i + 1]!, count, word);
        if (after[i] === merged || after[i + 1] === merged) grown.add(after[i]! * SHIFT + after[i + 1]!);
      }
      this.ids[word] = after;
    }
    this.pairCounts.delete(pair);
    this.pairWords.delete(pair);
    for (const key of grown) this.heap.push(this.pairCounts.get(key) ?? 0, key);
  }

  private change(pair: number, by: number, word: number): void {
    this.pairCounts.set(pair, (this.pairCounts.get(pair) ?? 0) + by);
    if (by < 0) return;
    const words = this.pairWords.get(pair);
    if (words === undefined) this.pairWords.set(pair, new Set([word]));
    else words.add(word);
  }
}

/** A binary heap of (count, pair): the largest count first, then the smallest pair. Entries may be out of date; the reader checks. */
class PairHeap {
  private readonly counts: number[] = [];
  private readonly pairs: number[] = [];

  push(count: number, pair: number): void {
    let at = this.counts.length;
    this.counts.push(count);
    this.pairs.push(pair);
    for (let parent = (at - 1) >> 1; at > 0 && this.before(at, parent); parent = (at - 1) >> 1) {
      this.swap(at, parent);
      at = parent;
    }
  }

  pop(): { readonly count: number; readonly pair: number } | undefined {
    const size = this.counts.length;
    if (size === 0) return undefined;
    this.swap(0, size - 1);
    const top = { count: this.counts.pop()!, pair: this.pairs.pop()! };
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      if (left >= size - 1) return top;
      const child = left + 1 < size - 1 && this.before(left + 1, left) ? left + 1 : left;
      if (!this.before(child, at)) return top;
      this.swap(child, at);
      at = child;
    }
  }

  private before(a: number, b: number): boolean {
    const difference = this.counts[a]! - this.counts[b]!;
    return difference > 0 || (difference === 0 && this.pairs[a]! < this.pairs[b]!);
  }

  private swap(a: number, b: number): void {
    [this.counts[a], this.counts[b]] = [this.counts[b]!, this.counts[a]!];
    [this.pairs[a], this.pairs[b]] = [this.pairs[b]!, this.pairs[a]!];
  }
}

function tokenizerJson(
  tokens: readonly string[],
  merges: readonly [string, string][],
  { specials, pattern }: { readonly specials: readonly string[]; readonly pattern: string },
): JsonObject {
  const bytes = byteLevel(false, true);
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: specials.map((content, id) => ({ id, content, ...flags })),
    normalizer: null,
    pre_tokenizer: sequence(split(pattern), bytes),
    post_processor: null,
    decoder: bytes,
    model: bpeModel({ vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges, ignoreMerges: false }),
  };
}
