/** Reads one answer: a scalar, or what holds several. A text that is no mathematics is refused, never read in part. */
import { parseDecimal, rational } from "../rational.ts";
import { apply, integerOf, symbolOf, type Expr, type RelationSign } from "./expression.ts";
import { Reader } from "./reader.ts";
import { MathSyntaxError, tokenize, type Token } from "./tokens.ts";
import { beginsFactor, factor } from "./scalar.ts";

const RELATIONS: Readonly<Record<string, RelationSign>> = {
  "=": "=",
  "<": "<",
  ">": ">",
  le: "<=",
  ge: ">=",
  ne: "!=",
  approx: "~",
  sim: "~",
  in: "in",
  equiv: "=",
};

/** Throws `MathSyntaxError`, with what could not be read. */
export function parseMath(text: string): Expr {
  const reader = new Reader(tokenize(text), { list, sum });
  if (reader.done) throw new MathSyntaxError("nothing");
  const expr = list(reader);
  if (!reader.done) throw new MathSyntaxError(reader.found());
  return expr;
}

/** Items between commas, semicolons, "and", "or"; one item is itself. */
function list(reader: Reader): Expr {
  const items: Expr[] = [relation(reader)];
  while (reader.takeMark(",") || reader.takeMark(";") || takeJoin(reader)) {
    while (takeJoin(reader));
    items.push(relation(reader));
  }
  return items.length === 1 ? items[0]! : { kind: "list", items };
}

function takeJoin(reader: Reader): boolean {
  return reader.takeCommand("and") || reader.takeCommand("or") || reader.takeCommand("vee") || reader.takeCommand("wedge");
}

function relation(reader: Reader): Expr {
  return reader.deeper(() => {
    const terms: Expr[] = [leftSide(reader)];
    const signs: RelationSign[] = [];
    for (;;) {
      const sign = takeRelation(reader);
      if (sign === null) break;
      signs.push(sign);
      terms.push(quantity(reader));
    }
    return signs.length === 0 ? terms[0]! : { kind: "relation", terms, signs };
  });
}

function takeRelation(reader: Reader): RelationSign | null {
  const token = reader.peek();
  if (token === undefined || (token.type !== "mark" && token.type !== "command")) return null;
  const sign = Object.hasOwn(RELATIONS, token.text) ? RELATIONS[token.text]! : null;
  if (sign === null || (token.type === "mark") !== "=<>".includes(token.text)) return null;
  reader.next();
  if (sign === "<" && reader.takeMark("=")) return "<=";
  return sign === ">" && reader.takeMark("=") ? ">=" : sign;
}

/** "f(x) =" and "Area =" name what is stated; they are no product and no unit. */
function leftSide(reader: Reader): Expr {
  const start = reader.at;
  const name = reader.peek();
  if (name?.type === "text" && reader.peek(1)?.type === "mark" && reader.peek(1)?.text === "=") {
    reader.next();
    return symbolOf(name.text);
  }
  if (name?.type === "symbol" && isMark(reader.peek(1), "(")) {
    let ahead = 2;
    const inside: string[] = [];
    for (; reader.peek(ahead)?.type === "symbol" || isMark(reader.peek(ahead), ","); ahead++) inside.push(reader.peek(ahead)!.text);
    if (inside.length > 0 && isMark(reader.peek(ahead), ")") && isMark(reader.peek(ahead + 1), "=")) {
      reader.at = start + ahead + 1;
      return symbolOf(`${name.text}(${inside.join("")})`);
    }
  }
  return quantity(reader);
}

function isMark(token: Token | undefined, text: string): boolean {
  return token?.type === "mark" && token.text === text;
}

/** A value with the unit that follows it: text, or letters after a space that are no symbols of a formula. */
function quantity(reader: Reader): Expr {
  const first = reader.peek();
  if (first?.type === "text" && !beginsFactorAfter(reader)) return words(reader);
  const value = union(reader);
  if (reader.peek()?.type !== "text") return value;
  return withUnit(value, unitText(reader));
}

const MULTIPLES: Readonly<Record<string, bigint>> = {
  dozen: 12n,
  hundred: 100n,
  thousand: 1000n,
  million: 10n ** 6n,
  billion: 10n ** 9n,
  trillion: 10n ** 12n,
};
/** Words behind a number that change it or take it back; a text with one of them is no unit. */
const NO_UNIT = new RegExp(
  [
    String.raw`^(?:squared|cubed|score|gross|ten|twenty)\b`,
    String.raw`\b(?:plus|minus|times|over|divided|multiplied|added|subtracted|factorial|modulo|choose|between)\b`,
    String.raw`\b(?:not|wrong|incorrect|false|except|maybe|perhaps|possibly|probably|never|less|more|than|instead|but|nor|versus)\b`,
    String.raw`\b(?:if|unless|because|until)\b`,
    String.raw`\b(?:half|halves|(?:third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)s?)\b`,
  ].join("|"),
  "i",
);

/** "5 million" and "5 percent" are numbers; "5 cm" has a unit; "5 plus something" is neither. */
function withUnit(value: Expr, text: string): Expr {
  const [first = "", ...rest] = text.split(" ");
  if (text === "") return value;
  if (Object.hasOwn(MULTIPLES, first.toLowerCase()))
    return withUnit(apply("Multiply", value, integerOf(MULTIPLES[first.toLowerCase()]!)), rest.join(" "));
  if (first.toLowerCase() === "percent") return withUnit(apply("Percent", value), rest.join(" "));
  if (NO_UNIT.test(text)) throw new MathSyntaxError(`the words "${text.slice(0, 30)}"`);
  return { kind: "quantity", value, unit: text };
}

function beginsFactorAfter(reader: Reader): boolean {
  const token = reader.peek();
  return token?.type === "text" && token.text === "" && reader.peek(1) !== undefined;
}

function words(reader: Reader): Expr {
  const text: string[] = [];
  for (let token = reader.peek(); token?.type === "text" || token?.type === "symbol"; token = reader.peek()) text.push(reader.next().text);
  return { kind: "text", text: text.join(" ") };
}

function unitText(reader: Reader): string {
  const parts: string[] = [];
  for (;;) {
    const token = reader.peek();
    if (token?.type === "text") parts.push(reader.next().text);
    else if (isMark(token, "^") && parts.length > 0) {
      reader.next();
      const braces = reader.takeMark("{");
      const exponent = reader.next();
      if (exponent.type !== "number") throw new MathSyntaxError(`an exponent ${exponent.text} of a unit`);
      if (braces) reader.expectMark("}");
      parts.push(`${parts.pop()!}^${exponent.text}`);
    } else if (isMark(token, "/") && parts.length > 0 && ["text", "symbol"].includes(reader.peek(1)?.type ?? "")) {
      reader.next();
      parts.push(`${parts.pop()!}/${reader.next().text}`);
    } else break;
  }
  return parts
    .filter((part) => part !== "")
    .join(" ")
    .trim();
}

function union(reader: Reader): Expr {
  const first = ratio(reader);
  for (const [command, kind] of [
    ["cup", "union"],
    ["cap", "intersection"],
  ] as const) {
    if (!reader.takeCommand(command)) continue;
    const items = [first, ratio(reader)];
    while (reader.takeCommand(command)) items.push(ratio(reader));
    return { kind, items };
  }
  return first;
}

function ratio(reader: Reader): Expr {
  const raw = [reader.peek()];
  const parts = [sum(reader)];
  while (reader.takeMark(":")) {
    raw.push(reader.peek());
    parts.push(sum(reader));
  }
  if (parts.length === 1) return parts[0]!;
  const minutes = raw.slice(1).every((token) => token?.type === "number" && /^\d\d$/.test(token.text));
  return { kind: minutes && /^\d{1,2}$/.test(raw[0]!.text) ? "time" : "ratio", parts };
}

function sum(reader: Reader): Expr {
  let left = signed(reader);
  for (;;) {
    if (reader.takeMark("+")) left = apply("Add", left, product(reader));
    else if (reader.takeMark("-")) left = apply("Subtract", left, product(reader));
    else if (reader.takeCommand("pm")) left = apply("PlusMinus", left, product(reader));
    else if (reader.takeCommand("mp")) left = apply("MinusPlus", left, product(reader));
    else return left;
  }
}

function signed(reader: Reader): Expr {
  if (reader.takeMark("+")) return signed(reader);
  if (reader.takeMark("-")) return apply("Negate", product(reader));
  if (reader.takeCommand("pm")) return apply("PlusMinus", integerOf(0), product(reader));
  if (reader.takeCommand("mp")) return apply("MinusPlus", integerOf(0), product(reader));
  return product(reader);
}

function product(reader: Reader): Expr {
  const mixed = mixedNumber(reader);
  let left = mixed ?? factor(reader);
  for (;;) {
    if (reader.takeMark("*") || reader.takeCommand("times") || reader.takeCommand("cdot") || reader.takeCommand("ast")) {
      left = apply("Multiply", left, signedFactor(reader));
    } else if (reader.takeMark("/") || reader.takeCommand("div")) left = apply("Divide", left, signedFactor(reader));
    else if (reader.takeCommand("bmod")) left = apply("Mod", left, factor(reader));
    else if (beginsFactor(reader) && (reader.peek()!.type !== "number" || closes(reader.peek(-1))))
      left = apply("Multiply", left, factor(reader));
    else return left;
  }
}

/** A number may follow a bracket or a factorial: 7!3!. */
function closes(token: Token | undefined): boolean {
  return token?.type === "mark" && (token.text === "!" || token.text === ")" || token.text === "}");
}

/** A factor may have a sign of its own after an operator: 2 * -3. */
function signedFactor(reader: Reader): Expr {
  return reader.takeMark("-") ? apply("Negate", signedFactor(reader)) : factor(reader);
}

/** 1 1/2 and 1\frac{1}{2} are one and a half. */
function mixedNumber(reader: Reader): Expr | null {
  const whole = reader.peek();
  if (whole?.type !== "number" || !/^\d{1,9}$/.test(whole.text)) return null;
  const [above, slash, below] = [reader.peek(1), reader.peek(2), reader.peek(3)];
  const plain = (token: Token | undefined): token is Token => token?.type === "number" && /^\d{1,9}$/.test(token.text);
  if (plain(above) && above.spaced && isMark(slash, "/") && plain(below)) return mixed(reader, { whole, above, below, length: 4 });
  if (above?.type !== "command" || above.text !== "frac") return null;
  const parts = [2, 5].map((open) =>
    isMark(reader.peek(open), "{") && isMark(reader.peek(open + 2), "}") ? reader.peek(open + 1) : undefined,
  );
  if (plain(parts[0]) && plain(parts[1])) return mixed(reader, { whole, above: parts[0], below: parts[1], length: 8 });
  const [digits] = [reader.peek(2)];
  if (plain(digits) && digits.text.length === 2) {
    const [top, bottom] = [...digits.text].map((text): Token => ({ type: "number", text, spaced: false }));
    return mixed(reader, { whole, above: top!, below: bottom!, length: 3 });
  }
  return null;
}

function mixed(reader: Reader, given: { whole: Token; above: Token; below: Token; length: number }): Expr | null {
  const [whole, above, below] = [given.whole, given.above, given.below].map(({ text }) => parseDecimal(text)!.n);
  if (below === 0n || above! >= below!) return null;
  reader.at += given.length;
  return { kind: "number", value: rational(whole! * below! + above!, below) };
}
