/** Whether two answers are the same answer. The kind of the right one decides how: a pair is no interval, a list no single value. */
import { equal } from "../rational.ts";
import { fromBase, parseUnit, sameDimension, toBase } from "../units.ts";
import { exactValue } from "./exact.ts";
import { apply, integerOf, isScalar, numberOf, replaceSymbols, symbolOf, symbolsOf, type Expr, type Interval } from "./expression.ts";
import type { Answer } from "./normal.ts";
import { sameScalar, type Judgement, type NumericOptions } from "./numeric.ts";

const MAX_ITEMS = 64;

export async function sameAnswer(gold: Answer, answer: Answer, options: NumericOptions): Promise<Judgement> {
  if (gold.label !== null && answer.label !== null && gold.label !== answer.label) {
    return bothRelations(gold, answer, options);
  }
  for (const [one, other] of [
    [gold, answer],
    [answer, gold],
  ] as const) {
    if (one.label === null || other.expr.kind !== "relation" || other.expr.signs.join() !== "=" || !isScalar(one.expr)) continue;
    if (symbolsOf(other.expr).has(one.label)) return sameEquation(relationOf(symbolOf(one.label), one.expr), other.expr, options);
  }
  return same(gold.expr, answer.expr, options);
}

/** x = 3 and y = 3 are different; x = y + 1 and y = x - 1 are the same. */
async function bothRelations(gold: Answer, answer: Answer, options: NumericOptions): Promise<Judgement> {
  const [a, b] = [gold, answer].map(({ label, expr }) => relationOf(symbolOf(label!), expr));
  return a === undefined || b === undefined || !isScalar(gold.expr) || !isScalar(answer.expr) ? "different" : sameEquation(a, b, options);
}

function relationOf(left: Expr, right: Expr): Relation {
  return { kind: "relation", terms: [left, right], signs: ["="] };
}

type Relation = Expr & { readonly kind: "relation" };

async function same(gold: Expr, answer: Expr, options: NumericOptions): Promise<Judgement> {
  if (isScalar(gold) && isScalar(answer)) return sameScalar(gold, answer, options);
  if (gold.kind === "quantity" || answer.kind === "quantity") return sameQuantity(gold, answer, options);
  const [values, goldItems, answerItems] = [await chainValue(answer, options), itemsOf(gold), itemsOf(answer)];
  if (values !== null) return same(gold, values, options);
  if (goldItems !== null && answerItems !== null) return sameItems(goldItems, answerItems, options);
  if (gold.kind === "union" || answer.kind === "union") return sameItems(piecesOf(gold), piecesOf(answer), options);
  const [low, high] = [asInterval(gold, answer), asInterval(answer, gold)];
  if (low !== null && high !== null) return sameInterval(low, high, options);
  if (gold.kind !== answer.kind) return sameMixed(gold, answer, options);
  switch (gold.kind) {
    case "tuple":
      return sameInOrder(gold.items, (answer as typeof gold).items, options);
    case "matrix":
      return sameRows(gold.rows, (answer as typeof gold).rows, options);
    case "intersection":
      return sameItems(gold.items, (answer as typeof gold).items, options);
    case "relation":
      return sameRelation(gold, answer as typeof gold, options);
    case "text":
      return plainText(gold.text) === plainText((answer as typeof gold).text) ? "equal" : "different";
    case "time":
      return sameInOrder(gold.parts, (answer as typeof gold).parts, options);
    case "ratio":
      return sameRatio(gold.parts, (answer as typeof gold).parts, options);
    case "apply":
      return sameBased(gold, answer as typeof gold, options);
    case "number":
    case "symbol":
    case "list":
    case "set":
    case "interval":
      return "different";
  }
}

function plainText(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[\s.,;:!'"-]+/g, " ")
    .trim();
}

/** Members whose order does not count; null for what is no list of them. */
function itemsOf(expr: Expr): readonly Expr[] | null {
  return expr.kind === "list" || expr.kind === "set" ? expr.items : null;
}

function piecesOf(expr: Expr): readonly Expr[] {
  return expr.kind === "union" ? expr.items : [expr];
}

/** 2 + 3 = 5 and (x+1)^2 = x^2+2x+1 state what they end with, if they hold for every x; an equation to be solved states no value. */
async function chainValue(expr: Expr, options: NumericOptions): Promise<Expr | null> {
  if (expr.kind !== "relation" || expr.signs.some((sign) => sign !== "=") || !expr.terms.every(isScalar)) return null;
  const named = expr.terms[0]!.kind === "symbol" && symbolsOf(expr.terms[0]).size > 0;
  const terms = named && expr.terms.length > 2 ? expr.terms.slice(1) : expr.terms;
  for (const term of terms.slice(1)) if ((await sameScalar(terms[0]!, term, options)) !== "equal") return null;
  return terms.at(-1)!;
}

/** A pair in round brackets is also an open interval, where it is held against one. */
function asInterval(expr: Expr, other: Expr): Interval | null {
  if (expr.kind === "interval") return expr;
  if (expr.kind !== "tuple" || expr.items.length !== 2 || other.kind !== "interval") return null;
  return { kind: "interval", low: expr.items[0]!, high: expr.items[1]!, openLow: true, openHigh: true };
}

async function sameInterval(a: Interval, b: Interval, options: NumericOptions): Promise<Judgement> {
  const open = (end: Expr, stated: boolean): boolean =>
    stated || (end.kind === "symbol" && end.name === "PositiveInfinity") || isNegativeInfinity(end);
  if (open(a.low, a.openLow) !== open(b.low, b.openLow) || open(a.high, a.openHigh) !== open(b.high, b.openHigh)) return "different";
  return sameInOrder([a.low, a.high], [b.low, b.high], options);
}

function isNegativeInfinity(expr: Expr): boolean {
  return expr.kind === "apply" && expr.head === "Negate" && expr.args[0]!.kind === "symbol" && expr.args[0].name === "PositiveInfinity";
}

async function sameInOrder(gold: readonly Expr[], answer: readonly Expr[], options: NumericOptions): Promise<Judgement> {
  if (gold.length !== answer.length || gold.length > MAX_ITEMS) return "different";
  let result: Judgement = "equal";
  for (const [i, item] of gold.entries()) {
    const judged = await same(item, answer[i]!, options);
    if (judged === "different") return judged;
    if (judged === "unknown") result = judged;
  }
  return result;
}

/** Every member of the one is a member of the other, as often. */
async function sameItems(gold: readonly Expr[], answer: readonly Expr[], options: NumericOptions): Promise<Judgement> {
  if (gold.length !== answer.length || gold.length > MAX_ITEMS) return "different";
  const left = [...answer];
  let result: Judgement = "equal";
  for (const item of gold) {
    let found = -1;
    let unknown = false;
    for (const [i, candidate] of left.entries()) {
      const judged = await same(item, candidate, options);
      if (judged === "equal") {
        found = i;
        break;
      }
      unknown ||= judged === "unknown";
    }
    if (found < 0 && !unknown) return "different";
    if (found < 0) result = "unknown";
    else left.splice(found, 1);
  }
  return result;
}

async function sameRows(
  gold: readonly (readonly Expr[])[],
  answer: readonly (readonly Expr[])[],
  options: NumericOptions,
): Promise<Judgement> {
  if (gold.length !== answer.length || gold[0]!.length !== answer[0]!.length) return "different";
  return sameInOrder(gold.flat(), answer.flat(), options);
}

/** A value against "x = value"; a column against a tuple; a ratio against a fraction. */
async function sameMixed(gold: Expr, answer: Expr, options: NumericOptions): Promise<Judgement> {
  const goldValue = await chainValue(gold, options);
  if (goldValue !== null) return same(goldValue, answer, options);
  for (const [matrix, tuple] of [
    [gold, answer],
    [answer, gold],
  ] as const) {
    if (matrix.kind === "matrix" && tuple.kind === "tuple" && (matrix.rows.length === 1 || matrix.rows[0]!.length === 1)) {
      return sameInOrder(matrix.rows.flat(), tuple.items, options);
    }
    if (matrix.kind === "ratio" && isScalar(tuple) && matrix.parts.length === 2) {
      return sameScalar(apply("Divide", matrix.parts[0]!, matrix.parts[1]!), tuple, options);
    }
  }
  return "different";
}

async function sameRelation(gold: Relation, answer: Relation, options: NumericOptions): Promise<Judgement> {
  if (gold.signs.length === 1 && answer.signs.length === 1) return sameEquation(gold, answer, options);
  if (gold.signs.join() !== answer.signs.join()) return "different";
  return sameInOrder(gold.terms, answer.terms, options);
}

const FLIPPED: Readonly<Record<string, string>> = { "<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!=" };

/** Two equations or inequalities are the same if left minus right of the one is a constant multiple of that of the other. */
async function sameEquation(gold: Relation, answer: Relation, options: NumericOptions): Promise<Judgement> {
  const [a, b] = [gold, answer].map(({ terms: [left, right] }) => [left!, right!] as const);
  if (![...a!, ...b!].every(isScalar)) {
    if (gold.signs[0] !== answer.signs[0]) return "different";
    return sameInOrder(gold.terms, answer.terms, options);
  }
  const [f, g] = [apply("Subtract", ...a!), apply("Subtract", ...b!)];
  const names = [...new Set([...symbolsOf(f), ...symbolsOf(g)])];
  if (symbolsOf(f).size === 0 || symbolsOf(g).size === 0 || symbolsOf(f).size !== symbolsOf(g).size) return "different";
  const factor = await constantRatio(f, g, names, options);
  if (factor === null) return "different";
  const [sign, other] = [gold.signs[0]!, answer.signs[0]!];
  return other === (factor > 0 ? sign : FLIPPED[sign]) ? "equal" : "different";
}

/** The sign of f / g if that is the same non-zero rational or real number everywhere. */
async function constantRatio(f: Expr, g: Expr, names: readonly string[], options: NumericOptions): Promise<number | null> {
  // Moving every symbol of f/g to renamed copies: f(x) g(x') = f(x') g(x) holds exactly where f/g is constant.
  const other = new Map(names.map((name) => [name, symbolOf(`${name} elsewhere`)]));
  const [f2, g2] = [replaceSymbols(f, other), replaceSymbols(g, other)];
  if ((await sameScalar(apply("Multiply", f, g2), apply("Multiply", f2, g), options)) !== "equal") return null;
  const point = new Map(names.map((name, i): [string, Expr] => [name, numberOf({ n: BigInt(137 + 41 * i), d: 61n })]));
  const ratio = apply("Divide", replaceSymbols(f, point), replaceSymbols(g, point));
  const exact = exactValue(ratio);
  if (exact !== null) return exact.n === 0n ? null : exact.n > 0n ? 1 : -1;
  const absolute = await sameScalar(ratio, apply("Abs", ratio), options);
  return absolute === "equal" ? 1 : -1;
}

/** 3:4 and 6:8 are the same ratio. */
async function sameRatio(gold: readonly Expr[], answer: readonly Expr[], options: NumericOptions): Promise<Judgement> {
  if (gold.length !== answer.length) return "different";
  const scaled = (parts: readonly Expr[]): Expr[] => parts.slice(1).map((part) => apply("Divide", part, parts[0]!));
  return sameInOrder(scaled(gold), scaled(answer), options);
}

/** 101_2 is the same as 101_2 alone: which base was asked for is part of the answer. */
async function sameBased(gold: Expr & { kind: "apply" }, answer: Expr & { kind: "apply" }, options: NumericOptions): Promise<Judgement> {
  if (gold.head !== answer.head || gold.head !== "Based") return "different";
  return sameInOrder(gold.args, answer.args, options);
}

/** A missing unit is none to disagree with; two units are converted; angles may be in radians without a unit. */
async function sameQuantity(gold: Expr, answer: Expr, options: NumericOptions): Promise<Judgement> {
  if (gold.kind !== "quantity" || answer.kind !== "quantity") {
    const [given, bare] = gold.kind === "quantity" ? [gold, answer] : [answer as Expr & { kind: "quantity" }, gold];
    const plain = await same(given.value, bare, options);
    if (plain !== "different" || given.unit !== "°" || !isScalar(bare) || exactValue(bare) !== null) return plain;
    return sameScalar(apply("Divide", apply("Multiply", given.value, symbolOf("Pi")), integerOf(180)), bare, options);
  }
  if (plainUnit(gold.unit) === plainUnit(answer.unit)) return same(gold.value, answer.value, options);
  const [wanted, stated] = [parseUnit(gold.unit), parseUnit(answer.unit)];
  if (wanted === null || stated === null || !sameDimension(wanted, stated)) return "different";
  const [a, b] = [exactValue(gold.value), exactValue(answer.value)];
  if (a === null || b === null) {
    if (wanted.offset !== undefined || stated.offset !== undefined) return "different";
    return sameScalar(
      apply("Multiply", gold.value, numberOf(wanted.factor)),
      apply("Multiply", answer.value, numberOf(stated.factor)),
      options,
    );
  }
  const converted = fromBase(toBase(b, stated), wanted);
  return equal(a, converted) ? "equal" : sameScalar(numberOf(a), numberOf(converted), options);
}

function plainUnit(unit: string): string {
  const plain = unit.replace(/[\s.]+/g, " ").trim();
  return plain.length > 3 ? plain.toLowerCase().replace(/s\b/g, "") : plain;
}
