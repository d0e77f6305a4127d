/** Data files that people hand in: UTF-8 lines of JSON, read without changing what they say, each with its place. */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { ConfigError, expected, messageOf } from "./errors.ts";
import type { JsonObject } from "./types.ts";

interface DataLine {
  readonly text: string;
  readonly number: number;
  /** `<path> line <number>`. */
  readonly where: string;
  /** Bytes of the file up to the end of this line. */
  readonly end: number;
}

/** Bytes of a line; a text of JavaScript holds about twice as many. */
const longest = 2 ** 28;

/** The bytes of a file; `what` begins the error if it cannot be read. */
export function readDataFile(path: string, what: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new ConfigError(expected(`${what} ${path}`, "a readable file", messageOf(cause)), { cause });
  }
}

/** Every line, empty ones too. A byte-order mark at the start is no text; bytes that are no UTF-8 are refused with their line. */
export function* dataLines(bytes: Buffer, path: string): Generator<DataLine> {
  const marked = bytes.length >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  for (let at = marked ? 3 : 0, number = 1; at < bytes.length; number++) {
    const found = bytes.indexOf(0x0a, at);
    const end = found < 0 ? bytes.length : found;
    const where = `${path} line ${number}`;
    if (end - at > longest) throw new ConfigError(expected(where, `at most ${longest} bytes`, `${end - at}`, "cut the row into several"));
    const line = bytes.subarray(at, end);
    if (!isUtf8(line)) throw new ConfigError(expected(where, "UTF-8", "bytes that are none", "save the file as UTF-8"));
    at = end + 1;
    yield { text: line.toString("utf8"), number, where, end: Math.min(at, bytes.length) };
  }
}

/** One line as a JSON object. An integer that a double would round, and a number beyond its range, are refused. */
export function parseDataLine({ text, where }: Pick<DataLine, "text" | "where">): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(expected(where, "a JSON object", messageOf(cause)), { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ConfigError(expected(where, "a JSON object", text.trim().slice(0, 40)));
  }
  const changed = changedNumber(text);
  if (changed === undefined) return value as JsonObject;
  const remedy = `write it as a text: "${changed}"`;
  throw new ConfigError(expected(where, "integers up to 9007199254740991 and numbers up to 1.8e308", changed, remedy));
}

/** The first number of a JSON text that reading changes: looked for outside of strings, and only where one could be. */
function changedNumber(text: string): string | undefined {
  if (!/\d{16}|\d[eE]\+?\d{3}/.test(text)) return undefined;
  const outside = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '""');
  const numbers = outside.match(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g) ?? [];
  return numbers.find((digits) => {
    const value = Number(digits);
    return !Number.isFinite(value) || (/^-?\d+$/.test(digits) && !Number.isSafeInteger(value));
  });
}
