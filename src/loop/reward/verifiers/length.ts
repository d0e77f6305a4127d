/** A bounded penalty for answers that are too short or too long: 0 inside the wanted range, down to -1 outside it. */
import { RewardError, expected, scored } from "../../../errors.ts";
import { verifierOf, type Verifier } from "./verifier.ts";

export interface LengthOptions {
  readonly unit?: "characters" | "words";
  /** The range without a penalty; default from 1 to 2,000. */
  readonly least?: number;
  readonly most?: number;
  /** How much longer than `most` has the full penalty of -1; between, it grows evenly. Default: as much as `most`. */
  readonly slack?: number;
}

/** Scores from -1 to 0, and never above: length earns nothing. The gold is not read. */
export function length({ unit = "words", least = 1, most = 2000, slack = most }: LengthOptions = {}): Verifier {
  if (unit !== "characters" && unit !== "words") {
    throw new RewardError(expected("length verifier: unit", '"characters" or "words"', String(unit)));
  }
  if (!(least >= 1 && most >= least && slack > 0 && Number.isFinite(most + slack))) {
    throw new RewardError(
      expected("length verifier", "1 <= least <= most and slack above 0", `least ${least}, most ${most}, slack ${slack}`),
    );
  }
  return verifierOf("length", ({ answer }) => {
    const size = unit === "characters" ? [...answer.trim()].length : countWords(answer);
    const over = Math.max(0, size - most) / slack;
    const under = Math.max(0, least - size) / least;
    const penalty = Math.min(1, over + under);
    return scored(penalty === 0 ? 0 : -penalty, `${size} ${unit}, wanted ${least} to ${most}`, { size });
  });
}

/** Runs of letters and digits; scripts without spaces are counted by runs too, so use characters for them. */
export function countWords(text: string): number {
  let words = 0;
  for (const _ of text.matchAll(/[\p{L}\p{N}]+/gu)) words++;
  return words;
}
