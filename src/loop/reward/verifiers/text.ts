/** Text against text: bit for bit, or after a stated normalisation; one right text or several. Never a part of a text. */
import { RewardError, expected, scored } from "../../../errors.ts";
import type { Json } from "../../../types.ts";
import { afterMarker } from "../final-answer.ts";
import { shown, unscorable, verifierOf, type Verifier } from "./verifier.ts";

export interface TextOptions {
  /** "exact": every character; "normalised" (default): see `normaliseAnswer`. */
  readonly match?: "exact" | "normalised";
  /** If the answer contains this (case ignored), only what follows its last occurrence is compared. */
  readonly after?: string;
}

/** Gold: a text, or a list of texts of which any is right. A gold without a letter or digit is unscorable. */
export function text({ match = "normalised", after }: TextOptions = {}): Verifier {
  if (match !== "exact" && match !== "normalised") {
    throw new RewardError(expected("text verifier: match", '"exact" or "normalised"', String(match)));
  }
  const form = match === "exact" ? (given: string) => given : normaliseAnswer;
  return verifierOf("text", ({ answer, gold }) => {
    const right = goldTexts(gold);
    if (right === null || right.some((each) => form(each) === "")) return unscorable("the gold is no text and no list of texts");
    const stated = form(afterMarker(answer, after));
    const found = right.find((each) => form(each) === stated);
    return found === undefined
      ? scored(0, `"${shown(stated)}" is not ${right.map((each) => shown(each)).join(" or ")}`)
      : scored(1, `is ${shown(found)}`);
  });
}

function goldTexts(gold: Json): readonly string[] | null {
  const all = Array.isArray(gold) ? (gold as readonly Json[]) : [gold];
  return all.length > 0 && all.every((each) => typeof each === "string") ? all : null;
}

/** NFKC, lower case, single spaces; quotes, asterisks and colons around it and a full stop or exclamation mark behind it go. */
export function normaliseAnswer(given: string): string {
  const flat = given.normalize("NFKC").toLowerCase().replace(/\s+/g, " ");
  let [start, end] = [0, flat.length];
  while (start < end && /[\s"'`“”‘’*:]/u.test(flat[start]!)) start++;
  while (end > start && /[\s"'`“”‘’*.!]/u.test(flat[end - 1]!)) end--;
  return flat.slice(start, end);
}
