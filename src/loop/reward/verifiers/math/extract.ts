/**
 * Where the answer is in a solution. The last \boxed counts; different boxes in one closing sentence are one answer of several parts.
 * Without a box: what follows the last "####" or "answer is", else the last formula or the last line. There is no window.
 */
import { braced } from "./latex.ts";

interface Extracted {
  readonly text: string;
  readonly from: "box" | "hashes" | "phrase" | "line" | "whole";
}

interface Box {
  readonly inside: string;
  readonly start: number;
  readonly end: number;
}

const BOX = /\\(?:boxed|fbox|framebox)\s*\{|\\boxed\s+(?=[^\s{])/g;
const PHRASE = new RegExp(
  [
    String.raw`\bfinal\s+answer[\s*_]*(?:is\b|:|=)`,
    String.raw`\banswer\s+is\b\s*:?`,
    String.raw`\banswers\s+are\b\s*:?`,
    String.raw`\banswer[\s*_]*(?::|=)`,
    String.raw`\bans\s*:`,
    String.raw`\bsolutions?\s+(?:is|are)\b\s*:?`,
  ].join("|"),
  "gi",
);

/** The part of a text that is its answer; null for an empty text. */
export function extractAnswer(text: string): Extracted | null {
  if (text.trim() === "") return null;
  const boxes = boxesIn(text);
  const boxed = boxes.length === 0 ? null : lastBoxes(text, boxes);
  if (boxed !== null) return { text: boxed, from: "box" };
  const hashes = text.lastIndexOf("####");
  if (hashes >= 0) {
    const line = firstLine(text.slice(hashes + 4));
    if (line !== "") return { text: line, from: "hashes" };
  }
  const phrase = afterPhrase(text);
  if (phrase !== null) return { text: phrase, from: "phrase" };
  const trimmed = text.trim();
  const line = lastLine(trimmed);
  return { text: line, from: line === trimmed ? "whole" : "line" };
}

function boxesIn(text: string): Box[] {
  const found: Box[] = [];
  for (const match of text.matchAll(BOX)) {
    const open = match.index + match[0].length - 1;
    if (found.length > 0 && match.index < found.at(-1)!.end) continue;
    if (!match[0].endsWith("{")) {
      const word = /^[^\s{}$]{1,40}/.exec(text.slice(open + 1, open + 41))![0];
      found.push({ inside: word, start: match.index, end: open + 1 + word.length });
      continue;
    }
    const inner = braced(text, open);
    if (inner === null) break;
    found.push({ inside: inner.inside.trim(), start: match.index, end: inner.end });
  }
  return found;
}

/** The last box, with those before it that stand in the same sentence; equal ones count once. */
function lastBoxes(text: string, boxes: readonly Box[]): string | null {
  const parts: string[] = [];
  let next: Box | null = null;
  for (const box of boxes.toReversed()) {
    if (next !== null && endsSentence(text.slice(box.end, next.start))) break;
    if (box.inside !== "" && !parts.includes(box.inside)) parts.unshift(box.inside);
    next = box;
  }
  return parts.length === 0 ? null : parts.join(" , ");
}

/** A full stop, an end of line, "so", "finally": what stands before is no part of the closing sentence. */
function endsSentence(between: string): boolean {
  return /[.!?](?:\s|$)|\n|\b(?:so|thus|hence|therefore|finally|instead|actually|then)\b/i.test(between.replace(/^[$\s]*\$/, ""));
}

function firstLine(text: string): string {
  const line = text.trimStart();
  const end = line.indexOf("\n");
  return (end < 0 ? line : line.slice(0, end)).trim();
}

function afterPhrase(text: string): string | null {
  let last: RegExpMatchArray | null = null;
  for (const match of text.matchAll(PHRASE)) last = match;
  if (last === null) return null;
  const rest = text.slice(last.index! + last[0].length).replace(/^[\s*:]+/, "");
  const answer = sentence(rest);
  return answer === "" ? null : answer;
}

/** Up to the end of the sentence or line; a display formula may stand on the next line. */
function sentence(text: string): string {
  const display = /^(?:\$\$|\\\[)([\s\S]{1,2000}?)(?:\$\$|\\\])/.exec(text);
  if (display !== null) return display[1]!.trim();
  const line = firstLine(text);
  const stop = /[.!?](?=\s+[A-Z"(]|\s*$)/.exec(line);
  return (
    stop === null || (line[stop.index] === "!" && stop.index > 0 && /[\d)]/.test(line[stop.index - 1]!)) ? line : line.slice(0, stop.index)
  ).trim();
}

function lastLine(text: string): string {
  const lines = text
    .split("\n")
    .map((each) => each.trim())
    .filter((each) => each !== "" && !/^(?:\\\]|\$\$|```)$/.test(each));
  const line = lines.at(-1) ?? "";
  const formulas = lastFormulas(line);
  if (formulas !== null) return formulas;
  const sentences = line.split(/(?<=[.!?])\s+(?=[A-Z])/);
  const closing = sentences.at(-1)!;
  const stated = /(?:\bis|\bare|\bequals|=)\s+([^=]{1,200})$/.exec(closing);
  return (stated === null || closing.includes("=") ? closing : stated[1]!).trim();
}

/** The last formula of a line, with those that only "or", "and" or a comma parts from it: they are offered together. */
function lastFormulas(line: string): string | null {
  const parts: string[] = [];
  let start = line.length;
  for (const found of [...line.matchAll(/(?<!\\)\$\$?([^$]+?)(?<!\\)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]/g)].toReversed()) {
    const between = line.slice(found.index + found[0].length, start);
    if (parts.length > 0 && !/^\s*(?:,|;|or|and)?\s*(?:or|and)?\s*$/.test(between)) break;
    parts.unshift((found[1] ?? found[2] ?? found[3])!.trim());
    start = found.index;
  }
  return parts.length === 0 ? null : parts.join(" , ");
}
