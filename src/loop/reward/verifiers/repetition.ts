/** A bounded penalty for saying the same again: the share of n-grams that stood before, down to -1 (Yeo et al. 2025, arXiv:2502.03373). */
import { RewardError, expected, scored } from "../../../errors.ts";
import { verifierOf, type Verifier } from "./verifier.ts";

export interface RepetitionOptions {
  /** Words in a row; default 4. */
  readonly words?: number;
  /** Share of repeated n-grams without a penalty; default 0.1. The penalty grows evenly from there to -1 at a share of 1. */
  readonly free?: number;
}

const MAX_WORDS = 50_000;

/** Scores from -1 to 0. The gold is not read. An answer shorter than one n-gram has no penalty. */
export function repetition({ words: size = 4, free = 0.1 }: RepetitionOptions = {}): Verifier {
  if (!Number.isInteger(size) || size < 1 || size > 20) {
    throw new RewardError(expected("repetition verifier: words", "an integer from 1 to 20", String(size)));
  }
  if (!(free >= 0 && free < 1)) throw new RewardError(expected("repetition verifier: free", "0 or more, below 1", String(free)));
  return verifierOf("repetition", ({ answer }) => {
    const share = repeatedShare(answer, size);
    const penalty = Math.max(0, share - free) / (1 - free);
    return scored(penalty === 0 ? 0 : -penalty, `${(share * 100).toFixed(0)} % of ${size}-word passages stood before`, { repeated: share });
  });
}

/** 1 - distinct / all n-grams of the first 50,000 words; where words have no spaces between, of the characters of long runs. */
function repeatedShare(text: string, size: number): number {
  const words: string[] = [];
  for (const match of text.toLowerCase().matchAll(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu)) {
    if (words.length >= MAX_WORDS) break;
    if (match[0].length > 30) words.push(...[...match[0]].slice(0, MAX_WORDS - words.length));
    else words.push(match[0]);
  }
  const all = words.length - size + 1;
  if (all <= 0) return 0;
  const seen = new Set<string>();
  for (let i = 0; i < all; i++) seen.add(words.slice(i, i + size).join("\u0000"));
  return 1 - seen.size / all;
}
