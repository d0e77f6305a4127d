/**
 * The one JSON codec for text that a model or a tool wrote, and the one encoder of metrics.
 * Reading is strict, because an argument that was silently changed is worse than one that was refused.
 * Writing gives what Python's `json.dumps(value, ensure_ascii=False)` gives, as chat templates print it.
 */
import type { Json, JsonObject } from "./types.ts";

/** What is wrong with a JSON text, and at which UTF-16 offset. */
class JsonError extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(`${message} at offset ${offset}`);
    this.name = "JsonError";
    this.offset = offset;
  }
}

const MAX_DEPTH = 64;
/** Keys that reach a prototype; never keys of data. */
export const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN_RUN = /[^"\\\u0000-\u001f]+/y;
const HEX = /[0-9a-fA-F]{4}/y;
const WHITESPACE = /[ \t\n\r]*/y;
const ESCAPES: Readonly<Record<string, string>> = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/**
 * Reads one JSON text. A number that a double would change (an integer above 2^53, more digits than a double has, an overflow)
 * comes out as a string with its exact text. Throws `JsonError` on anything else than one value: duplicate keys, keys that reach
 * a prototype, trailing text, nesting deeper than 64.
 */
export function parseJsonStrict(text: string): Json {
  const { value, end } = parseJsonPrefix(text, 0);
  if (end !== text.length) throw new JsonError(`expected the end of the text, got ${show(text, end)}`, end);
  return value;
}

/** As `parseJsonStrict`, for one value that begins at `start`; `end` is the offset after it and after the white space that follows. */
export function parseJsonPrefix(text: string, start: number): { readonly value: Json; readonly end: number } {
  const reader = new Reader(text, start);
  const value = reader.value(0);
  reader.space();
  return { value, end: reader.at };
}

class Reader {
  private readonly text: string;
  at: number;

  constructor(text: string, start: number) {
    this.text = text;
    this.at = start;
  }

  space(): void {
    this.match(WHITESPACE);
  }

  value(depth: number): Json {
    if (depth > MAX_DEPTH) throw new JsonError(`expected at most ${MAX_DEPTH} levels of nesting`, this.at);
    this.space();
    const first = this.text[this.at];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') return this.string();
    for (const [word, value] of [["true", true], ["false", false], ["null", null]] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  private object(depth: number): JsonObject {
    const object: Record<string, Json> = {};
    this.at++;
    this.space();
    if (this.take("}")) return object;
    for (;;) {
      this.space();
      const keyAt = this.at;
      if (this.text[keyAt] !== '"') throw this.wanted("a key in double quotes");
      const key = this.string();
      if (FORBIDDEN_KEYS.has(key)) throw new JsonError(`the key ${JSON.stringify(key)} is not allowed`, keyAt);
      if (Object.hasOwn(object, key)) throw new JsonError(`the key ${JSON.stringify(key)} is there twice`, keyAt);
      this.space();
      if (!this.take(":")) throw this.wanted('":"');
      object[key] = this.value(depth + 1);
      this.space();
      if (this.take("}")) return object;
      if (!this.take(",")) throw this.wanted('"," or "}"');
    }
  }

  private array(depth: number): Json[] {
    const items: Json[] = [];
    this.at++;
    this.space();
    if (this.take("]")) return items;
    for (;;) {
      items.push(this.value(depth + 1));
      this.space();
      if (this.take("]")) return items;
      if (!this.take(",")) throw this.wanted('"," or "]"');
    }
  }

  private string(): string {
    let result = "";
    this.at++;
    for (;;) {
      result += this.match(PLAIN_RUN);
      if (this.take('"')) return result;
      if (!this.take("\\")) throw this.wanted("the end of a string");
      const mark = this.text[this.at] ?? "";
      this.at++;
      if (mark === "u") {
        const digits = this.match(HEX);
        if (digits === "") throw this.wanted("four hexadecimal digits");
        result += String.fromCharCode(parseInt(digits, 16));
      } else {
        const plain = Object.hasOwn(ESCAPES, mark) ? ESCAPES[mark] : undefined;
        if (plain === undefined) throw new JsonError(`expected an escape sequence, got "\\${mark}"`, this.at - 2);
        result += plain;
      }
    }
  }

  private number(): number | string {
    const digits = this.match(NUMBER);
    if (digits === "") throw this.wanted("a JSON value");
    const value = Number(digits);
    return Number.isFinite(value) && decimal(String(value)) === decimal(digits) ? value : digits;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  private take(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private wanted(what: string): JsonError {
    return new JsonError(`expected ${what}, got ${show(this.text, this.at)}`, this.at);
  }
}

function show(text: string, offset: number): string {
  return offset >= text.length ? "the end of the text" : JSON.stringify(text.slice(offset, offset + 12));
}

/** A decimal number in one form, `digits e exponent` without zeros at either end, so that equal numbers are equal strings. */
function decimal(text: string): string {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = (whole + fraction).replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  if (kept === "") return "0";
  const sign = mantissa.startsWith("-") ? "-" : "";
  return `${sign}${kept}e${Number(exponent) - fraction.length + digits.length - kept.length}`;
}

/**
 * Writes `value` as Python's `json.dumps(value, ensure_ascii=False, indent=indent)` does: keys in their order, separators `", "` and
 * `": "`, or one item a line where `indent` (spaces a level) is given.
 */
export function dumpJson(value: Json, indent?: number): string {
  return dump(value, indent, 1);
}

function dump(value: Json, indent: number | undefined, depth: number): string {
  if (typeof value === "number") return dumpNumber(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const list = isArray(value);
  const items = list
    ? value.map((item) => dump(item, indent, depth + 1))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${dump(item, indent, depth + 1)}`);
  const [open, close] = list ? ["[", "]"] : ["{", "}"];
  if (items.length === 0) return open + close;
  if (indent === undefined) return open + items.join(", ") + close;
  const outer = `\n${" ".repeat(indent * (depth - 1))}`;
  const inner = `\n${" ".repeat(indent * depth)}`;
  return open + inner + items.join(`,${inner}`) + outer + close;
}

/** A number as Python prints it: as an integer where it is one below 1e21, else as `repr` prints a float. */
export function dumpNumber(value: number): string {
  if (!Number.isFinite(value)) throw new JsonError(`expected a finite number, got ${value}`, 0);
  if (Object.is(value, -0)) return "-0.0";
  const small = value !== 0 && Math.abs(value) < 1e-4;
  const text = small ? value.toExponential() : String(value);
  return text.replace(/e([+-])([0-9])$/, "e$10$2");
}

function isArray(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

/** One line of metrics as compact JSON; numbers that are not finite become the strings "NaN", "Infinity" and "-Infinity", never null. */
export function encodeMetrics(record: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(record, (_key, value: unknown) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value));
}
