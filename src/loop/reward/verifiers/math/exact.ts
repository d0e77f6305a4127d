/** The exact value of a formula of rationals, where it has one that is cheap. */
import {
  ONE,
  TooLarge,
  ZERO,
  add,
  compare,
  divide,
  magnitude,
  multiply,
  negate,
  power,
  rational,
  subtract,
  type Rational,
} from "../rational.ts";
import { integerOf, replaceSymbols, type Expr } from "./expression.ts";

const MAX_FACTORIAL = 3000n;
const MAX_TERMS = 5000n;
/** Nodes evaluated; a factorial or a root costs more than one. Keeps the cost of any formula to a few milliseconds. */
const MAX_STEPS = 30_000;

interface Budget {
  steps: number;
}

/** null: it has no exact value that is computed here; it may still have a value. */
export function exactValue(expr: Expr): Rational | null {
  try {
    return valueOf(expr, { steps: MAX_STEPS });
  } catch (cause) {
    if (cause instanceof TooLarge || cause instanceof RangeError) return null;
    throw cause;
  }
}

function valueOf(expr: Expr, budget: Budget): Rational | null {
  if (--budget.steps < 0) throw new TooLarge(`more than ${MAX_STEPS} steps`);
  if (expr.kind === "number") return expr.value;
  if (expr.kind !== "apply") return null;
  if (expr.head === "Sum" || expr.head === "Product") return repeated(expr.head, expr.args, budget);
  const values: Rational[] = [];
  for (const arg of expr.args) {
    const value = valueOf(arg, budget);
    if (value === null) return null;
    values.push(value);
  }
  const rule = Object.hasOwn(RULES, expr.head) ? RULES[expr.head] : undefined;
  budget.steps -= costOf(expr.head, values);
  if (budget.steps < 0) throw new TooLarge(`more than ${MAX_STEPS} steps`);
  return rule === undefined ? null : rule(...(values as [Rational, Rational, ...Rational[]]));
}

function costOf(head: string, values: readonly Rational[]): number {
  if (head === "Factorial" || head === "Choose")
    return Number(magnitude(values.at(-1)!).n > MAX_FACTORIAL ? 0n : magnitude(values.at(-1)!).n);
  return head === "Sqrt" || head === "Root" || head === "Power" ? 100 : 0;
}

type Rule = (a: Rational, b: Rational, ...rest: Rational[]) => Rational | null;

const RULES: Readonly<Record<string, Rule>> = {
  Add: add,
  Subtract: subtract,
  Multiply: multiply,
  Divide: divide,
  Negate: negate,
  Abs: magnitude,
  Percent: (a) => divide(a, rational(100n)),
  Power: raised,
  Sqrt: (a) => exactRoot(a, 2n),
  Root: (a, b) => (b.d === 1n && b.n > 0n ? exactRoot(a, b.n) : null),
  Factorial: (a) => (a.d === 1n && a.n >= 0n && a.n <= MAX_FACTORIAL ? rational(falling(a.n, a.n)) : null),
  Choose: (a, b) => {
    if (a.d !== 1n || b.d !== 1n || a.n < 0n || b.n < 0n || b.n > MAX_FACTORIAL) return null;
    return b.n > a.n ? ZERO : rational(falling(a.n, b.n), falling(b.n, b.n));
  },
  Floor: (a) => rational(floor(a)),
  Ceil: (a) => rational(-floor(negate(a))),
  Mod: (a, b) => subtract(a, multiply(b, rational(floor(divide(a, b))))),
  GCD: (...all) => integers(all, (a, b) => gcd(a, b)),
  LCM: (...all) => integers(all, (a, b) => (a === 0n || b === 0n ? 0n : (a / gcd(a, b)) * b)),
  Max: (...all) => all.reduce((a, b) => (compare(a, b) < 0 ? b : a)),
  Min: (...all) => all.reduce((a, b) => (compare(a, b) > 0 ? b : a)),
};

function raised(base: Rational, exponent: Rational): Rational | null {
  if (base.n === 0n && exponent.n === 0n) return null;
  if (exponent.d === 1n) return power(base, exponent.n);
  if (exponent.d > 64n || base.n <= 0n) return base.n === 0n && exponent.n > 0n ? ZERO : null;
  const rooted = exactRoot(base, exponent.d);
  return rooted === null ? null : power(rooted, exponent.n);
}

/** The root of a non-negative rational if it is rational; odd roots of negatives are negative. */
function exactRoot(value: Rational, degree: bigint): Rational | null {
  if (degree > 64n || degree < 1n) return null;
  if (value.n < 0n) {
    const positive = degree % 2n === 1n ? exactRoot(negate(value), degree) : null;
    return positive === null ? null : negate(positive);
  }
  const [top, bottom] = [integerRoot(value.n, degree), integerRoot(value.d, degree)];
  return top ** degree === value.n && bottom ** degree === value.d ? rational(top, bottom) : null;
}

/** floor(value^(1/degree)) by Newton's method from above. */
function integerRoot(value: bigint, degree: bigint): bigint {
  if (value < 2n) return value;
  let guess = 1n << (BigInt(value.toString(2).length) / degree + 1n);
  for (;;) {
    const next = ((degree - 1n) * guess + value / guess ** (degree - 1n)) / degree;
    if (next >= guess) return guess;
    guess = next;
  }
}

function falling(from: bigint, count: bigint): bigint {
  let product = 1n;
  for (let i = 0n; i < count; i++) product *= from - i;
  return product;
}

function floor({ n, d }: Rational): bigint {
  return n >= 0n || n % d === 0n ? n / d : n / d - 1n;
}

function gcd(a: bigint, b: bigint): bigint {
  [a, b] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

function integers(values: readonly Rational[], combine: (a: bigint, b: bigint) => bigint): Rational | null {
  if (values.length === 0 || values.some(({ d }) => d !== 1n)) return null;
  return rational(values.map(({ n }) => n).reduce(combine));
}

function repeated(head: "Sum" | "Product", [body, index, low, high]: readonly Expr[], budget: Budget): Rational | null {
  const [from, to] = [valueOf(low!, budget), valueOf(high!, budget)];
  if (from?.d !== 1n || to?.d !== 1n || to.n - from.n > MAX_TERMS || index?.kind !== "symbol") return null;
  let total = head === "Sum" ? ZERO : ONE;
  for (let at = from.n; at <= to.n; at++) {
    const term = valueOf(replaceSymbols(body!, new Map([[index.name, integerOf(at)]])), budget);
    if (term === null) return null;
    total = head === "Sum" ? add(total, term) : multiply(total, term);
  }
  return total;
}
