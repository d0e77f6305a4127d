/** What an answer is, once it has been read. */
import type { Rational } from "../rational.ts";

export type RelationSign = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "in";

export interface Interval {
  readonly kind: "interval";
  readonly low: Expr;
  readonly high: Expr;
  readonly openLow: boolean;
  readonly openHigh: boolean;
}

export type Expr =
  | { readonly kind: "number"; readonly value: Rational }
  | { readonly kind: "symbol"; readonly name: string }
  /** `head` is a MathJSON head, or one of PlusMinus, MinusPlus, Degrees, Percent, Based and Function:name. */
  | { readonly kind: "apply"; readonly head: string; readonly args: readonly Expr[] }
  /** list: no brackets, or joined by "and", "or"; order does not count in lists and sets, and repeated members do. */
  | { readonly kind: "list" | "set" | "tuple" | "union" | "intersection"; readonly items: readonly Expr[] }
  | Interval
  | { readonly kind: "matrix"; readonly rows: readonly (readonly Expr[])[] }
  | { readonly kind: "relation"; readonly terms: readonly Expr[]; readonly signs: readonly RelationSign[] }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "quantity"; readonly value: Expr; readonly unit: string }
  | { readonly kind: "time" | "ratio"; readonly parts: readonly Expr[] };

export const numberOf = (value: Rational): Expr => ({ kind: "number", value });
export const integerOf = (value: number | bigint): Expr => ({ kind: "number", value: { n: BigInt(value), d: 1n } });
export const apply = (head: string, ...args: readonly Expr[]): Expr => ({ kind: "apply", head, args });
export const symbolOf = (name: string): Expr => ({ kind: "symbol", name });

/** Letters and words that are constants wherever they stand. */
const CONSTANTS: ReadonlySet<string> = new Set(["Pi", "ExponentialE", "ImaginaryUnit", "PositiveInfinity"]);

/** True for what has one value at given values of its symbols. */
export function isScalar(expr: Expr): boolean {
  switch (expr.kind) {
    case "number":
    case "symbol":
      return true;
    case "apply":
      return !["PlusMinus", "MinusPlus", "Degrees", "Percent", "Based"].includes(expr.head) && expr.args.every(isScalarArgument);
    case "list":
    case "set":
    case "tuple":
    case "union":
    case "intersection":
    case "interval":
    case "matrix":
    case "relation":
    case "text":
    case "quantity":
    case "time":
    case "ratio":
      return false;
  }
}

/** Percent signs and degrees inside a formula have a value: 1/100 and pi/180. */
function isScalarArgument(expr: Expr): boolean {
  return expr.kind === "apply" && ["Degrees", "Percent"].includes(expr.head) ? expr.args.every(isScalarArgument) : isScalar(expr);
}

/** The free symbols of an expression; indices of sums are bound. */
export function symbolsOf(expr: Expr, into = new Set<string>()): Set<string> {
  if (expr.kind === "symbol" && !CONSTANTS.has(expr.name)) into.add(expr.name);
  if (expr.kind === "apply" && (expr.head === "Sum" || expr.head === "Product")) {
    const [body, index, low, high] = expr.args;
    const inner = symbolsOf(body!);
    if (index?.kind === "symbol") inner.delete(index.name);
    for (const name of inner) into.add(name);
    for (const bound of [low!, high!]) symbolsOf(bound, into);
    return into;
  }
  for (const child of childrenOf(expr)) symbolsOf(child, into);
  return into;
}

function childrenOf(expr: Expr): readonly Expr[] {
  switch (expr.kind) {
    case "apply":
      return expr.args;
    case "list":
    case "set":
    case "tuple":
    case "union":
    case "intersection":
      return expr.items;
    case "interval":
      return [expr.low, expr.high];
    case "matrix":
      return expr.rows.flat();
    case "relation":
      return expr.terms;
    case "quantity":
      return [expr.value];
    case "time":
    case "ratio":
      return expr.parts;
    case "number":
    case "symbol":
    case "text":
      return [];
  }
}

/** The same expression with `change` applied to each child. */
export function mapChildren(expr: Expr, change: (child: Expr) => Expr): Expr {
  switch (expr.kind) {
    case "apply":
      return { ...expr, args: expr.args.map(change) };
    case "list":
    case "set":
    case "tuple":
    case "union":
    case "intersection":
      return { ...expr, items: expr.items.map(change) };
    case "interval":
      return { ...expr, low: change(expr.low), high: change(expr.high) };
    case "matrix":
      return { ...expr, rows: expr.rows.map((row) => row.map(change)) };
    case "relation":
      return { ...expr, terms: expr.terms.map(change) };
    case "quantity":
      return { ...expr, value: change(expr.value) };
    case "time":
    case "ratio":
      return { ...expr, parts: expr.parts.map(change) };
    case "number":
    case "symbol":
    case "text":
      return expr;
  }
}

/** True if any part of the expression is an `apply` of one of these heads. */
export function contains(expr: Expr, heads: readonly string[]): boolean {
  return (expr.kind === "apply" && heads.includes(expr.head)) || childrenOf(expr).some((child) => contains(child, heads));
}

export function replaceSymbols(expr: Expr, values: ReadonlyMap<string, Expr>): Expr {
  if (expr.kind === "symbol") return values.get(expr.name) ?? expr;
  return mapChildren(expr, (child) => replaceSymbols(child, values));
}
