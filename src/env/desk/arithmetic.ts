/** A small calculator: decimals, + - * / and parentheses. It reads the text itself and can run nothing else. */

const MAX_LENGTH = 80;
const MAX_DEPTH = 16;

/** The value of an expression as text ("84", "0.3"). Throws a plain error that says where the expression stops making sense. */
export function calculate(expression: string): string {
  if (expression.length > MAX_LENGTH) throw new Error(`expression longer than ${MAX_LENGTH} characters`);
  const reader = { text: expression, at: 0, depth: 0 };
  const value = sum(reader);
  if (peek(reader) !== "") throw unexpected(reader);
  if (!Number.isFinite(value)) throw new Error("the result is too large");
  return plain(value);
}

interface Reader {
  readonly text: string;
  at: number;
  depth: number;
}

function sum(reader: Reader): number {
  let value = product(reader);
  for (;;) {
    if (take(reader, "+")) value += product(reader);
    else if (take(reader, "-")) value -= product(reader);
    else return value;
  }
}

function product(reader: Reader): number {
  let value = factor(reader);
  for (;;) {
    if (take(reader, "*") || take(reader, "×")) value *= factor(reader);
    else if (take(reader, "/") || take(reader, "÷")) {
      const divisor = factor(reader);
      if (divisor === 0) throw new Error("division by zero");
      value /= divisor;
    } else return value;
  }
}

function factor(reader: Reader): number {
  if (++reader.depth > MAX_DEPTH) throw new Error(`more than ${MAX_DEPTH} brackets or signs inside one another`);
  try {
    if (take(reader, "-")) return -factor(reader);
    if (take(reader, "(")) {
      const value = sum(reader);
      if (!take(reader, ")")) throw unexpected(reader, '")"');
      return value;
    }
    return numeral(reader);
  } finally {
    reader.depth--;
  }
}

function numeral(reader: Reader): number {
  peek(reader);
  const start = reader.at;
  while (/[\d.]/.test(reader.text[reader.at] ?? "")) reader.at++;
  const digits = reader.text.slice(start, reader.at);
  if (!/^\d+(\.\d+)?$/.test(digits)) {
    reader.at = start;
    throw unexpected(reader, "a number");
  }
  return Number(digits);
}

function peek(reader: Reader): string {
  while (reader.text[reader.at] === " ") reader.at++;
  return reader.text[reader.at] ?? "";
}

function take(reader: Reader, character: string): boolean {
  if (peek(reader) !== character) return false;
  reader.at++;
  return true;
}

function unexpected(reader: Reader, wanted = "an operator or the end"): Error {
  const found = reader.at >= reader.text.length ? "the end" : JSON.stringify(reader.text.slice(reader.at, reader.at + 8));
  return new Error(`expected ${wanted} at position ${reader.at + 1}, got ${found}`);
}

/** Twelve significant digits hide the binary rounding of 0.1 + 0.2; no exponent, no trailing zeros. */
function plain(value: number): string {
  const rounded = Number(value.toPrecision(12));
  if (Number.isInteger(rounded)) return BigInt(rounded).toString();
  const text = rounded.toFixed(10).replace(/0+$/, "").replace(/\.$/, "");
  return text === "-0" ? "0" : text;
}
