/** The factors of a formula: numbers, symbols, brackets, functions, and what is written behind and above them. */
import { add, multiply, parseDecimal, power, rational } from "../rational.ts";
import { braces, bracket, closed, matrix, tupleOf } from "./brackets.ts";
import { derivative } from "./derivative.ts";
import { apply, integerOf, numberOf, symbolOf, type Expr } from "./expression.ts";
import { FUNCTIONS, GREEK, INVERSES, OPENERS } from "./names.ts";
import type { Reader } from "./reader.ts";
import { MathSyntaxError, type Token } from "./tokens.ts";

export function beginsFactor(reader: Reader): boolean {
  const token = reader.peek();
  if (token === undefined || token.type === "text") return false;
  if (token.type === "mark")
    return token.text === "(" || token.text === "[" || token.text === "{" || (token.text === "|" && reader.bars === 0);
  return token.type !== "command" || beginsCommand(token.text);
}

function beginsCommand(text: string): boolean {
  return OPENERS.has(text) || GREEK.has(text) || Object.hasOwn(FUNCTIONS, text) || /^(?:mathbb|begin):/.test(text);
}

/** A primary with its powers, factorials, percent and degree signs. */
export function factor(reader: Reader): Expr {
  let base = reader.deeper(() => primary(reader));
  for (;;) {
    if (reader.takeMark("^")) {
      if (takeDegrees(reader)) base = apply("Degrees", base);
      else base = apply("Power", base, exponent(reader));
    } else if (reader.takeMark("!")) base = apply("Factorial", base);
    else if (reader.takeMark("%")) base = apply("Percent", base);
    else if (reader.takeCommand("choose")) base = apply("Choose", base, factor(reader));
    else return base;
  }
}

function takeDegrees(reader: Reader): boolean {
  const start = reader.at;
  const braces = reader.takeMark("{");
  if (reader.takeCommand("circ") && (!braces || reader.takeMark("}"))) return true;
  reader.at = start;
  return false;
}

function exponent(reader: Reader): Expr {
  if (reader.takeMark("-")) return apply("Negate", exponent(reader));
  const raised = reader.deeper(() => primary(reader));
  // Powers of powers are read from the top: 9^9^9.
  return reader.takeMark("^")
    ? apply(
        "Power",
        raised,
        reader.deeper(() => exponent(reader)),
      )
    : raised;
}

function primary(reader: Reader): Expr {
  const token = reader.next();
  switch (token.type) {
    case "number":
      return numeral(reader, token.text);
    case "symbol":
      return symbol(reader, token);
    case "command":
      return command(reader, token.text);
    case "mark":
      return bracket(reader, token.text);
    case "text":
      throw new MathSyntaxError(`the text "${token.text.slice(0, 20)}"`);
  }
}

/** A decimal, a repeating decimal 0.\overline{3}, or digits in a base 101_2. */
function numeral(reader: Reader, text: string): Expr {
  const value = parseDecimal(text);
  if (value === null) throw new MathSyntaxError(`the number ${text.slice(0, 20)}`);
  if (reader.takeCommand("overline")) {
    reader.expectMark("{");
    const digits = reader.next();
    reader.expectMark("}");
    const places = text.split(".")[1]?.length ?? -1;
    if (places < 0 || digits.type !== "number" || !/^\d{1,50}$/.test(digits.text))
      throw new MathSyntaxError("\\overline after no fraction");
    const period = rational(BigInt(digits.text), 10n ** BigInt(digits.text.length) - 1n);
    return numberOf(add(value, multiply(period, power(rational(10n), BigInt(-places)))));
  }
  if (!reader.takeMark("_")) return numberOf(value);
  const base = group(reader);
  return apply("Based", numberOf(value), base);
}

function symbol(reader: Reader, token: Token): Expr {
  let name = token.text;
  if (reader.takeMark("_")) name += `_${rawGroup(reader)}`;
  while (reader.takeMark("'")) name += "'";
  const next = reader.peek();
  if (/^[fghFGH]/.test(name) && next?.type === "mark" && next.text === "(") return symbolOf(`${name}${rawBracket(reader)}`);
  if (name === "e") return symbolOf("ExponentialE");
  return symbolOf(name === "i" ? "ImaginaryUnit" : name);
}

/** The text of a subscript. */
function rawGroup(reader: Reader): string {
  if (!reader.takeMark("{")) return reader.next().text;
  let text = "";
  while (!reader.takeMark("}")) text += reader.next().text;
  return text;
}

/** The text of the arguments of a function that nothing is known of: f(x+1) is one unknown. */
function rawBracket(reader: Reader): string {
  let text = "";
  let depth = 0;
  do {
    const { text: piece } = reader.next();
    if (piece === "(") depth++;
    if (piece === ")") depth--;
    text += piece;
  } while (depth > 0);
  return text;
}

function command(reader: Reader, name: string): Expr {
  if (Object.hasOwn(FUNCTIONS, name)) return called(reader, FUNCTIONS[name]!);
  if (GREEK.has(name)) return symbolOf(reader.takeMark("_") ? `${name}_${rawGroup(reader)}` : name);
  switch (name) {
    case "pi":
      return symbolOf("Pi");
    case "infty":
      return symbolOf("PositiveInfinity");
    case "emptyset":
      return { kind: "set", items: [] };
    case "frac":
      return fraction(reader);
    case "sqrt":
      return root(reader);
    case "binom":
      return apply("Choose", group(reader), group(reader));
    case "sum":
      return repeated(reader, "Sum");
    case "prod":
      return repeated(reader, "Product");
    case "lfloor":
      return apply("Floor", closed(reader, "rfloor"));
    case "lceil":
      return apply("Ceil", closed(reader, "rceil"));
    case "langle":
      return tupleOf(closed(reader, "rangle"));
    case "{":
      return braces(reader);
    default:
      if (name.startsWith("begin:")) return matrix(reader, name.slice(6));
      if (name.startsWith("mathbb:")) return symbolOf(name);
      throw new MathSyntaxError(`\\${name.slice(0, 20)}`);
  }
}

/** One braced argument, or one token: \frac12 takes a digit at a time. */
function group(reader: Reader): Expr {
  if (reader.takeMark("{")) {
    const inner = reader.deeper(() => reader.list());
    reader.expectMark("}");
    return inner;
  }
  const token = reader.peek();
  if (token?.type !== "number") return reader.deeper(() => primary(reader));
  return numeral(reader, reader.splitNumber().text);
}

function fraction(reader: Reader): Expr {
  const variable = derivativeVariable(reader);
  if (variable !== null) {
    let body = factor(reader);
    while (beginsFactor(reader)) body = apply("Multiply", body, factor(reader));
    return derivative(body, variable);
  }
  return apply("Divide", group(reader), group(reader));
}

/** x where the next tokens are {d}{dx}. */
function derivativeVariable(reader: Reader): string | null {
  const texts = [0, 1, 2, 3, 4, 5, 6].map((ahead) => reader.peek(ahead)?.text ?? "");
  if (texts.slice(0, 5).join("") !== "{d}{d" || texts[6] !== "}" || reader.peek(5)?.type !== "symbol") return null;
  reader.at += 7;
  return texts[5]!;
}

function root(reader: Reader): Expr {
  let degree: Expr | null = null;
  if (reader.takeMark("[")) {
    degree = reader.sum();
    reader.expectMark("]");
  }
  const next = reader.peek();
  const inner = next?.type === "number" ? numeral(reader, reader.next().text) : group(reader);
  return degree === null ? apply("Sqrt", inner) : apply("Root", inner, degree);
}

/** \sum_{k=1}^{n} body, where the body is the product that follows. */
function repeated(reader: Reader, head: "Sum" | "Product"): Expr {
  reader.expectMark("_");
  reader.expectMark("{");
  const index = reader.next();
  if (index.type !== "symbol") throw new MathSyntaxError(`an index "${index.text}"`);
  reader.expectMark("=");
  const low = reader.sum();
  reader.expectMark("}");
  reader.expectMark("^");
  const high = group(reader);
  let body = factor(reader);
  while (beginsFactor(reader)) body = apply("Multiply", body, factor(reader));
  const name = index.text === "i" ? "ImaginaryUnit" : index.text;
  if (name === "ImaginaryUnit" || index.text === "e")
    body = renamed(body, name === "ImaginaryUnit" ? name : "ExponentialE", `${index.text}_index`);
  const bound = name === "ImaginaryUnit" || index.text === "e" ? `${index.text}_index` : index.text;
  return apply(head, body, symbolOf(bound), low, high);
}

function renamed(expr: Expr, from: string, to: string): Expr {
  if (expr.kind === "symbol") return expr.name === from ? symbolOf(to) : expr;
  return expr.kind === "apply" ? { ...expr, args: expr.args.map((child) => renamed(child, from, to)) } : expr;
}

function called(reader: Reader, head: string): Expr {
  let base: Expr | null = null;
  let raised: Expr | null = null;
  for (;;) {
    if (head === "Log" && reader.takeMark("_")) base = logBase(reader);
    else if (raised === null && reader.takeMark("^")) raised = exponent(reader);
    else break;
  }
  const inverse = raised?.kind === "apply" && raised.head === "Negate" && Object.hasOwn(INVERSES, head) ? INVERSES[head]! : null;
  const made = withArguments(inverse ?? head, argument(reader), base);
  return raised === null || inverse !== null ? made : apply("Power", made, raised);
}

function withArguments(head: string, given: Expr, base: Expr | null): Expr {
  if (["GCD", "LCM", "Max", "Min"].includes(head)) return apply(head, ...(given.kind === "tuple" ? given.items : [given]));
  if (head === "Cbrt") return apply("Root", given, integerOf(3));
  if (head !== "Log") return apply(head, given);
  if (base === null && given.kind === "tuple" && given.items.length === 2) return apply("Log", ...given.items);
  return apply("Log", given, base ?? integerOf(10));
}

/** log_2 8 and log_10(100): digits are one base if an argument follows them. */
function logBase(reader: Reader): Expr {
  const token = reader.peek();
  if (token?.type !== "number" || token.text.length < 2) return group(reader);
  const next = reader.peek(1);
  const whole = next !== undefined && (next.spaced || next.type !== "mark" || next.text === "(" || next.text === "{");
  return numeral(reader, whole ? reader.next().text : reader.splitNumber().text);
}

/** Brackets, or the product that follows up to the next function: \sin 2x \cos y is two factors. */
function argument(reader: Reader): Expr {
  const first = reader.peek();
  if (first?.type === "mark" && (first.text === "(" || first.text === "{" || first.text === "["))
    return reader.deeper(() => primary(reader));
  if (reader.takeMark("-")) return apply("Negate", argument(reader));
  let product = factor(reader);
  for (;;) {
    const next = reader.peek();
    const stops = next?.type === "command" && Object.hasOwn(FUNCTIONS, next.text);
    if (!beginsFactor(reader) || stops || next?.text === "(" || next?.text === "[") return product;
    product = apply("Multiply", product, factor(reader));
  }
}
