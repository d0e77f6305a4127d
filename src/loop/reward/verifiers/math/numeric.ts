/**
 * Whether two scalars are equal. Rationals are compared exactly. What is not rational is compared by value: to 45 digits, then to 150;
 * with free symbols at four random points, negative ones too. A value that only has machine precision cannot confirm an equality.
 */
import { integer, rng } from "../../../../random.ts";
import type { Json } from "../../../../types.ts";
import { ZERO, compare, equal, magnitude, multiply, parseDecimal, power, rational, subtract, type Rational } from "../rational.ts";
import type { Decimals } from "./engine.ts";
import { exactValue } from "./exact.ts";
import { contains, integerOf, numberOf, replaceSymbols, symbolsOf, type Expr } from "./expression.ts";

export type Judgement = "equal" | "different" | "unknown";

/** Decimals of MathJSON formulas at a number of digits. */
type Evaluate = (formulas: readonly Json[], precision: number) => Promise<readonly Decimals[]>;

export interface NumericOptions {
  readonly evaluate: Evaluate;
  /** Values that free symbols take: any real numbers, or positive ones. */
  readonly symbols: "real" | "positive";
  /** Relative difference that counts as equal, for numbers that are no formulas of symbols; 0: exact. */
  readonly tolerance: number;
}

const POINTS = 4;
/** Formulas with these are about whole numbers, and are compared at whole numbers. */
const COUNTING = ["Sum", "Product", "Factorial", "Choose", "GCD", "LCM", "Mod"];
const DIGITS = 60;
const MORE_DIGITS = 200;

interface Value {
  readonly re: Rational;
  readonly im: Rational;
  /** Computed with the precision of a double. */
  readonly machine: boolean;
}

export async function sameScalar(a: Expr, b: Expr, options: NumericOptions): Promise<Judgement> {
  const infinite = [infinity(a), infinity(b)];
  if (infinite[0] !== 0 || infinite[1] !== 0) return infinite[0] === infinite[1] ? "equal" : "different";
  const [exactA, exactB] = [exactValue(a), exactValue(b)];
  if (exactA !== null && exactB !== null) {
    if (equal(exactA, exactB)) return "equal";
    return options.tolerance > 0 && within(exactA, exactB, decimalOf(options.tolerance)) ? "equal" : "different";
  }
  const names = [...new Set([...symbolsOf(a), ...symbolsOf(b)])].sort();
  const counting = [a, b].some((expr) => contains(expr, COUNTING));
  const points = names.length === 0 ? [new Map<string, Expr>()] : pointsFor(names, counting ? "counting" : options.symbols);
  const pairs = points.map((point) => [replaceSymbols(a, point), replaceSymbols(b, point)] as const);
  const values = await valuesOf(pairs.flat(), DIGITS, options.evaluate);
  let usable = 0;
  for (const [i] of points.entries()) {
    const [left, right] = [values[2 * i] ?? null, values[2 * i + 1] ?? null];
    if (left === null && right === null) continue;
    if (left === null || right === null) return left === null ? "unknown" : "different";
    const same = await sameValue(left, right, pairs[i]!, {
      ...options,
      confirm: usable === 0,
      tolerance: names.length === 0 ? options.tolerance : 0,
    });
    if (same !== "equal") return same;
    usable++;
  }
  return usable > (points.length - 1) / 2 ? "equal" : "unknown";
}

/** 1, -1, or 0 for what is finite. */
function infinity(expr: Expr): -1 | 0 | 1 {
  if (expr.kind === "symbol") return expr.name === "PositiveInfinity" ? 1 : 0;
  if (expr.kind !== "apply" || expr.head !== "Negate") return 0;
  return -infinity(expr.args[0]!) as -1 | 0 | 1;
}

function pointsFor(names: readonly string[], symbols: "real" | "positive" | "counting"): Map<string, Expr>[] {
  return Array.from({ length: POINTS }, (_, point) => {
    const key = rng(20_240_607, "math", point);
    return new Map(
      names.map((name, i): [string, Expr] => {
        if (symbols === "counting") return [name, integerOf(3 + point * 2 + integer(key, 9, i))];
        const size = rational(BigInt(101 + integer(key, 900, 2 * i)), BigInt(97 + integer(key, 200, 2 * i + 1)));
        const negative = symbols === "real" && (point + i) % 2 === 1;
        return [name, numberOf(negative ? { n: -size.n, d: size.d } : size)];
      }),
    );
  });
}

async function valuesOf(formulas: readonly Expr[], precision: number, evaluate: Evaluate): Promise<readonly (Value | null)[]> {
  const exact = formulas.map(exactValue);
  const open = formulas.filter((_, i) => exact[i] === null);
  const computed = open.length === 0 ? [] : await evaluate(open.map(mathJson), precision);
  let next = 0;
  return exact.map((value) => (value === null ? valueOf(computed[next++] ?? null) : { re: value, im: ZERO, machine: false }));
}

function valueOf(decimals: Decimals): Value | null {
  if (decimals === null) return null;
  const [re, im] = decimals.map(parseDecimal) as [Rational | null, Rational | null];
  if (re === null || im === null) return null;
  return { re, im, machine: decimals.some(isDouble) };
}

/** A decimal with as many digits as a double prints; what was computed to 60 digits has that few only if it ends there. */
function isDouble(text: string): boolean {
  const digits = text.split(/e/i)[0]!.replace(/^-?0*\.?0*|\./g, "").length;
  return digits >= 12 && digits <= 17;
}

interface SameValueOptions extends NumericOptions {
  readonly confirm: boolean;
}

async function sameValue(a: Value, b: Value, pair: readonly [Expr, Expr], options: SameValueOptions): Promise<Judgement> {
  if (options.tolerance > 0 && close(a, b, decimalOf(options.tolerance))) return "equal";
  if (a.machine || b.machine) {
    if (!close(a, b, TENTH_TO(12))) return "different";
    return a.im.n !== 0n || b.im.n !== 0n ? "equal" : "unknown";
  }
  const near = close(a, b, TENTH_TO(45));
  const tiny = [a, b].some((value) => compare(size(value), TENTH_TO(20)) < 0);
  if (!near && !tiny) return "different";
  if (near && !options.confirm) return "equal";
  const [moreA, moreB] = await valuesOf(pair, MORE_DIGITS, options.evaluate);
  if (moreA === undefined || moreA === null || moreB === undefined || moreB === null) return "unknown";
  if (close(moreA, moreB, TENTH_TO(150))) return "equal";
  // What shrinks as digits are added is the rounding of a zero.
  const zeros = [
    [a, moreA],
    [b, moreB],
  ].map(([few, many]) => size(many!).n === 0n || !close(few!, many!, TENTH_TO(10)));
  return zeros[0] && zeros[1] ? "equal" : "different";
}

const TENTH_TO = (digits: number): Rational => power(rational(10n), BigInt(-digits));

function decimalOf(value: number): Rational {
  return parseDecimal(String(value)) ?? ZERO;
}

function size({ re, im }: Value): Rational {
  const [x, y] = [magnitude(re), magnitude(im)];
  return compare(x, y) < 0 ? y : x;
}

function close(a: Value, b: Value, tolerance: Rational): boolean {
  const scale = compare(size(a), size(b)) < 0 ? size(b) : size(a);
  const limit = multiply(scale, tolerance);
  return [subtract(a.re, b.re), subtract(a.im, b.im)].every((difference) => compare(magnitude(difference), limit) <= 0);
}

function within(wanted: Rational, given: Rational, tolerance: Rational): boolean {
  return compare(magnitude(subtract(wanted, given)), multiply(magnitude(wanted), tolerance)) <= 0;
}

/** The formula as the Compute Engine reads it. */
export function mathJson(expr: Expr): Json {
  if (expr.kind === "number") {
    const { n, d } = expr.value;
    return d === 1n ? { num: String(n) } : ["Divide", { num: String(n) }, { num: String(d) }];
  }
  if (expr.kind === "symbol") return expr.name;
  if (expr.kind !== "apply") return "Undefined";
  const args = expr.args.map(mathJson);
  switch (expr.head) {
    case "Percent":
      return ["Divide", args[0]!, 100];
    case "Degrees":
      return ["Divide", ["Multiply", args[0]!, "Pi"], 180];
    case "Choose":
      return ["Binomial", ...args];
    case "Sum":
    case "Product":
      return [expr.head, args[0]!, ["Limits", args[1]!, args[2]!, args[3]!]];
    default:
      return [expr.head, ...args];
  }
}
