/**
 * Different ways of writing the same kind of answer become one: labels, signs of both kinds, inequalities, families, the empty set.
 */
import { rational } from "../rational.ts";
import { apply, contains, integerOf, mapChildren, replaceSymbols, symbolOf, type Expr, type RelationSign } from "./expression.ts";

/** What is stated, and the name that it is stated of: x in x = 3. */
export interface Answer {
  readonly label: string | null;
  readonly expr: Expr;
}

const INFINITY = symbolOf("PositiveInfinity");
const NEGATIVE_INFINITY = apply("Negate", INFINITY);
const REALS: Expr = { kind: "interval", low: NEGATIVE_INFINITY, high: INFINITY, openLow: true, openHigh: true };
const EMPTY: Expr = { kind: "set", items: [] };
const CONSTANT = new Set(["Pi", "ExponentialE", "ImaginaryUnit", "PositiveInfinity"]);
const PARAMETER = "parameter";

export function normalAnswer(expr: Expr): Answer {
  return labelled(simplified(withoutParameter(expr)));
}

/** ", k in Z" says that k is any integer: the family is what is left, with one name for its parameter. */
function withoutParameter(expr: Expr): Expr {
  if (expr.kind !== "list") return expr;
  const clause = expr.items.find((item) => item.kind === "relation" && item.signs[0] === "in" && isIntegers(item.terms[1]!));
  if (clause?.kind !== "relation" || clause.terms[0]!.kind !== "symbol") return expr;
  const name = clause.terms[0].name;
  const rest = expr.items.filter((item) => item !== clause).map((item) => replaceSymbols(item, new Map([[name, symbolOf(PARAMETER)]])));
  return rest.length === 1 ? rest[0]! : { kind: "list", items: rest };
}

function isIntegers(expr: Expr): boolean {
  return expr.kind === "symbol" && expr.name === "mathbb:Z";
}

function simplified(expr: Expr): Expr {
  if (expr.kind === "symbol" && expr.name === "mathbb:R") return REALS;
  if (expr.kind === "apply") return outermost(expr);
  const inner = mapChildren(expr, simplified);
  if (inner.kind === "set" || inner.kind === "list") {
    const items = inner.items.flatMap((item) =>
      item.kind === "list" || (inner.kind === "set" && item.kind === "set") ? item.items : [item],
    );
    return items.length === 1 ? items[0]! : { ...inner, items };
  }
  return inner;
}

/** Signs of both kinds give two values; a percent sign and a degree sign around the whole are read here. */
function outermost(expr: Expr & { readonly kind: "apply" }): Expr {
  if (contains(expr, ["PlusMinus", "MinusPlus"])) {
    return { kind: "list", items: [chosen(expr, true), chosen(expr, false)].map(simplified) };
  }
  const [first] = expr.args;
  if (expr.head === "Percent") return apply("Divide", first!, integerOf(100));
  if (expr.head === "Degrees") return { kind: "quantity", value: first!, unit: "°" };
  if (expr.head === "Negate" && first?.kind === "apply" && first.head === "Degrees") {
    return { kind: "quantity", value: apply("Negate", first.args[0]!), unit: "°" };
  }
  if (expr.head === "Negate" && first?.kind === "apply" && first.head === "Percent") {
    return apply("Divide", apply("Negate", first.args[0]!), integerOf(100));
  }
  return expr;
}

function chosen(expr: Expr, upper: boolean): Expr {
  const inner = mapChildren(expr, (child) => chosen(child, upper));
  if (inner.kind !== "apply" || (inner.head !== "PlusMinus" && inner.head !== "MinusPlus")) return inner;
  const [left, right] = inner.args as [Expr, Expr];
  const plus = (inner.head === "PlusMinus") === upper;
  const zero = left.kind === "number" && left.value.n === 0n;
  if (zero) return plus ? right : apply("Negate", right);
  return apply(plus ? "Add" : "Subtract", left, right);
}

function labelled(expr: Expr): Answer {
  if (expr.kind === "relation") return relationAnswer(expr);
  if (expr.kind !== "list" && expr.kind !== "set") return { label: null, expr };
  const answers = expr.items.map((item) => labelled(item));
  const labels = new Set(answers.map(({ label }) => label));
  const [first] = answers;
  const oneName = labels.size === 1 || (labels.size === 2 && labels.has(null) && first!.label !== null);
  if (!oneName || first === undefined || first.label === null) return { label: null, expr };
  const items = answers.flatMap((answer) => (answer.expr.kind === "list" ? answer.expr.items : [answer.expr]));
  const pieces = items.every((item) => item.kind === "interval" || item.kind === "union");
  if (pieces)
    return { label: first.label, expr: { kind: "union", items: items.flatMap((item) => (item.kind === "union" ? item.items : [item])) } };
  return { label: first.label, expr: { ...expr, items } };
}

function relationAnswer(relation: Expr & { readonly kind: "relation" }): Answer {
  const exact = beforeApproximation(relation);
  if (exact.kind !== "relation") return labelled(exact);
  const { terms, signs } = exact;
  const [first, second] = terms as [Expr, Expr];
  const name = nameOf(first);
  if (signs[0] === "in" && signs.length === 1 && name !== null) return { label: name, expr: second };
  if (signs.length === 1 && signs[0] === "=") {
    if (name !== null) return { label: name, expr: second };
    const other = nameOf(second);
    return other === null ? { label: null, expr: exact } : { label: other, expr: first };
  }
  return inequality(terms, signs) ?? { label: null, expr: exact };
}

/** x = 10/3 ~ 3.33 states 10/3. */
function beforeApproximation(relation: Expr & { readonly kind: "relation" }): Expr {
  const at = relation.signs.indexOf("~");
  if (at < 0) return relation;
  if (at === 0) {
    // "x ~ 3.14" states 3.14 of x, while "10/3 ~ 3.33" and "3.33 ~ 10/3" state 10/3.
    const [first, second] = relation.terms as [Expr, Expr];
    if (nameOf(first) === null) return first.kind === "number" && second.kind !== "number" ? second : first;
    return { ...relation, signs: relation.signs.map((sign) => (sign === "~" ? "=" : sign)) };
  }
  return { kind: "relation", terms: relation.terms.slice(0, at + 1), signs: relation.signs.slice(0, at) };
}

function nameOf(expr: Expr): string | null {
  return expr.kind === "symbol" && !CONSTANT.has(expr.name) ? expr.name : null;
}

const FLIPPED: Partial<Record<RelationSign, RelationSign>> = { "<": ">", "<=": ">=", ">": "<", ">=": "<=" };

/** Bounds on one name are an interval: x < 3, 1 < x <= 2, 3 > x. */
function inequality(terms: readonly Expr[], signs: readonly RelationSign[]): Answer | null {
  if (signs.some((sign) => FLIPPED[sign] === undefined)) return null;
  const at = terms.findIndex((term) => nameOf(term) !== null);
  const others = terms.filter((_, i) => i !== at);
  if (at < 0 || terms.length > 3 || others.some((term) => nameOf(term) !== null) || (terms.length === 3 && at !== 1)) return null;
  let [low, high]: [Expr, Expr] = [NEGATIVE_INFINITY, INFINITY];
  let [openLow, openHigh] = [true, true];
  for (const [i, sign] of signs.entries()) {
    const bound = terms[i < at ? i : i + 1]!;
    const seen = i < at ? FLIPPED[sign]! : sign;
    if (seen === "<" || seen === "<=") [high, openHigh] = [bound, seen === "<"];
    else [low, openLow] = [bound, seen === ">"];
  }
  if (terms.length === 3 && (low === NEGATIVE_INFINITY || high === INFINITY)) return null;
  return { label: nameOf(terms[at]!), expr: { kind: "interval", low, high, openLow, openHigh } };
}

const NUMBER_WORDS =
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(
    " ",
  );
const TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
const NOTHING = new Set([
  "no solution",
  "no solutions",
  "no real solution",
  "no real solutions",
  "none",
  "empty set",
  "the empty set",
  "empty",
]);
const ALL = new Set(["all real numbers", "all reals", "all real x", "any real number", "every real number"]);

/** Words that mean mathematics: "no solution", "all real numbers", "seven", "twenty-one". */
export function wordsAsMath(text: string): Expr | null {
  const words = text.toLowerCase().trim();
  if (NOTHING.has(words)) return EMPTY;
  if (ALL.has(words)) return REALS;
  const small = NUMBER_WORDS.indexOf(words);
  if (small >= 0) return integerOf(small);
  const [tens = "", ones] = words.split(/[\s-]+/);
  const ten = TENS.indexOf(tens);
  const one = ones === undefined ? 0 : NUMBER_WORDS.indexOf(ones);
  return ten < 0 || one < 0 || one > 9 || words.split(/[\s-]+/).length > 2
    ? null
    : { kind: "number", value: rational(BigInt((ten + 2) * 10 + one)) };
}
