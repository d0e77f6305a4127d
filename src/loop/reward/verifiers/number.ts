/**
 * The last number of an answer against the right one, compared exactly as decimals.
 *
 * Policy: the last number counts. It is no answer if it is part of an expression ("3*4", "1/2", "10-15", "12:00"), or if the number
 * before it is different and only "or", "and", a comma or a space stands between (several answers offered at once). Currency signs and
 * units around it are ignored; "50%" is 50. Digits inside a word ("K7-31", "x2", "6e3") are no numbers.
 */
import { scored } from "../../../errors.ts";
import { afterMarker, answerReward, type AnswerReward } from "../final-answer.ts";

interface NumberOptions {
  /** Key of the task's data that holds the right number (a number, or a text that is one); default "answer". */
  readonly gold?: string;
  /** If the answer contains this (case ignored), only what follows its last occurrence is read: "the answer is". */
  readonly after?: string;
}

type StatedNumber = { readonly type: "number"; readonly value: string } | { readonly type: "none"; readonly reason: string };

/** Scores 1 if the last number of the final answer is the gold number, else 0. A gold that is no number is unscorable. */
export function number({ gold = "answer", after }: NumberOptions = {}): AnswerReward {
  return answerReward((data) => {
    const wanted = goldNumber(data[gold]);
    if (wanted === null) return { unscorable: `task data "${gold}" holds no number` };
    return (answer) => {
      const stated = statedNumber(afterMarker(answer, after));
      if (stated.type === "none") return scored(0, stated.reason);
      return stated.value === wanted ? scored(1, `is ${wanted}`) : scored(0, `${stated.value} is not ${wanted}`);
    };
  });
}

function goldNumber(gold: unknown): string | null {
  const text = typeof gold === "number" ? String(gold) : typeof gold === "string" ? gold.trim() : "";
  const match = /^([-−+]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?$/.exec(text);
  return match === null ? null : canonical(match[1]!, match[2]!, match[3] ?? "");
}

interface Found {
  readonly value: string;
  readonly start: number;
  readonly end: number;
}

/** A sign, an optional currency, digits (grouped by threes or not), an optional fraction; not inside a word or another number. */
const NUMBER = /(?<![\p{L}\p{N}_]|[\p{N}][.,:])([-−+]?)[$€£]?(\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?!\d)|\d+)(\.\d+)?/gu;
const GROUP = /[,\u00a0\u202f]/g;
/** Characters looked at on either side of a number; keeps the cost linear in the length of what a model wrote. */
const WINDOW = 24;
const BETWEEN_ALTERNATIVES = /^\s*(?:[,;/|]|or|and|,\s*(?:or|and))?\s*$/i;

/** The number that a text states as its answer, as a canonical decimal ("84", "-0.5"), or why it states none. */
export function statedNumber(text: string): StatedNumber {
  const found = numbersIn(text);
  const last = found.at(-1);
  if (last === undefined) return { type: "none", reason: "no number in the answer" };
  const before = text.slice(Math.max(0, last.start - WINDOW), last.start);
  const behind = text.slice(last.end, last.end + WINDOW);
  if (isOperand(before, behind)) return { type: "none", reason: `the last number, ${last.value}, is part of an expression` };
  const previous = found.at(-2);
  if (previous !== undefined && previous.value !== last.value && alternatives(text.slice(previous.end, last.start))) {
    return { type: "none", reason: `several numbers offered: ${previous.value} and ${last.value}` };
  }
  return { type: "number", value: last.value };
}

function numbersIn(text: string): Found[] {
  const found: Found[] = [];
  for (const match of text.matchAll(NUMBER)) {
    const [whole, sign, digits, fraction] = match;
    const end = match.index + whole.length;
    const before = text.slice(Math.max(0, match.index - WINDOW), match.index);
    const behind = text.slice(end, end + WINDOW);
    if (/^(?:_|[eE][-+]?\d|-?\p{L}\d|,\d)/u.test(behind)) continue;
    // A sign directly after a letter, a digit or a bracket joins; it makes no negative number.
    const joins = sign !== "" && /[\p{L}\p{N})]$/u.test(before);
    const start = joins ? match.index + sign!.length : match.index;
    found.push({ value: canonical(joins ? "" : sign!, digits!, fraction ?? ""), start, end });
  }
  return found;
}

function alternatives(between: string): boolean {
  return between.length <= WINDOW && BETWEEN_ALTERNATIVES.test(between);
}

const OPERATOR_BEFORE = /[\p{L}\p{N})%]\s*[+*/×÷^]\s*$|[\p{N})%]\s*[-−]\s*$|\p{N}:$|\p{L}\($|\^\s*[({]?$/u;
const OPERATOR_BEHIND = /^\s*(?:[-−+*/×÷^]\s*[\d(]|:\d)|^\(/u;

function isOperand(before: string, behind: string): boolean {
  return OPERATOR_BEFORE.test(before) || OPERATOR_BEHIND.test(behind);
}

/**
 * Sign, digits without grouping and leading zeros, fraction without trailing zeros; zero has no sign. Counts zeros by hand: /0+$/
 * takes quadratic time on a long run of zeros that is not at the end.
 */
function canonical(sign: string, digits: string, fraction: string): string {
  const whole = digits.replace(GROUP, "");
  let start = 0;
  while (start < whole.length - 1 && whole[start] === "0") start++;
  let end = fraction.length;
  while (end > 0 && fraction[end - 1] === "0") end--;
  const size = whole.slice(start) + (end <= 1 ? "" : fraction.slice(0, end));
  return (sign === "-" || sign === "−") && size !== "0" ? `-${size}` : size;
}
