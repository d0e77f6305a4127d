/** A stated answer to what it is, or why it cannot be read. */
import { messageOf } from "../../../../errors.ts";
import { cleanLatex } from "./latex.ts";
import { normalAnswer, wordsAsMath, type Answer } from "./normal.ts";
import { parseMath } from "./parse.ts";
import { MathSyntaxError } from "./tokens.ts";

/** Words in which capitals do not count: two letters and more, and no points of a figure such as AB. */
function isWords(text: string): boolean {
  return /^[a-z][a-z '-]+$/.test(wordsOf(text)) && !/^[A-Z]{2,3}$/.test(cleanLatex(text));
}

function wordsOf(text: string): string {
  return cleanLatex(text)
    .replace(/\\text\{([^{}]*)\}/g, "$1")
    .toLowerCase()
    .replace(/\s+/g, " ")
    .trim();
}

/** Whether two texts are the same words, or the same formula but for spaces. */
export function sameText(a: string, b: string): boolean {
  return flat(a) === flat(b) || (isWords(a) && isWords(b) && wordsOf(a) === wordsOf(b));
}

function flat(text: string): string {
  return cleanLatex(text).replace(/(?<!\d)\s+|\s+(?!\d)/g, "");
}

/** An answer, or why it cannot be read. */
export function read(text: string): Answer | string {
  try {
    const clean = cleanLatex(text);
    const words = wordsAsMath(clean.replace(/^\\text\{(.*)\}$/, "$1"));
    return normalAnswer(words ?? parseMath(withoutThousands(clean)));
  } catch (cause) {
    if (cause instanceof MathSyntaxError) return `unexpected ${cause.message}`;
    if (cause instanceof RangeError) return messageOf(cause);
    throw cause;
  }
}

/** 1,000,000 is a number where no bracket is open; held against a list it may also be three numbers. */
export function readingsOf(stated: string, gold: Answer): readonly Answer[] | string {
  const first = read(stated);
  const grouped = THOUSANDS.test(cleanLatex(stated));
  const many = ["list", "set", "tuple", "interval"].includes(gold.expr.kind);
  const second = grouped && many ? read(stated.replaceAll(",", ", ")) : null;
  const readings = [first, second].filter((reading): reading is Answer => reading !== null && typeof reading !== "string");
  return readings.length === 0 ? (first as string) : readings;
}

const THOUSANDS = /(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])/;

function withoutThousands(text: string): string {
  let depth = 0;
  let plain = "";
  for (const piece of text.split(/(\\.|[()[\]{}]|(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,]))/)) {
    if (/^(?:[([{]|\\\{)$/.test(piece)) depth++;
    else if (/^(?:[)\]}]|\\\})$/.test(piece)) depth--;
    plain += depth === 0 && THOUSANDS.test(piece) ? piece.replaceAll(",", "") : piece;
  }
  return plain.replace(/(?<![\d.,])(\d{1,3})((?: \d{3})+)(?![\d.,/])/g, (whole, first: string, rest: string) =>
    /[a-zA-Z,;]/.test(text) ? whole : first + rest.replaceAll(" ", ""),
  );
}
