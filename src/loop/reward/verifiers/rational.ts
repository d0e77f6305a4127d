/** Exact rationals of big integers, in lowest terms with a positive denominator. */

export interface Rational {
  readonly n: bigint;
  readonly d: bigint;
}

/** Larger intermediate numbers are not computed here. */
const MAX_BITS = 40_000;

export class TooLarge extends Error {}

export function rational(n: bigint, d = 1n): Rational {
  if (d === 0n) throw new RangeError("division by zero");
  const sign = d < 0n ? -1n : 1n;
  const shared = gcd(n < 0n ? -n : n, d * sign);
  return { n: (sign * n) / shared, d: (sign * d) / shared };
}

export const ZERO: Rational = { n: 0n, d: 1n };
export const ONE: Rational = { n: 1n, d: 1n };

function gcd(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a === 0n ? 1n : a;
}

export const add = (a: Rational, b: Rational): Rational => checked(rational(a.n * b.d + b.n * a.d, a.d * b.d));
export const subtract = (a: Rational, b: Rational): Rational => add(a, negate(b));
export const multiply = (a: Rational, b: Rational): Rational => checked(rational(a.n * b.n, a.d * b.d));
export const divide = (a: Rational, b: Rational): Rational => checked(rational(a.n * b.d, a.d * b.n));
export const negate = (a: Rational): Rational => ({ n: -a.n, d: a.d });
export const equal = (a: Rational, b: Rational): boolean => a.n === b.n && a.d === b.d;
export const magnitude = (a: Rational): Rational => (a.n < 0n ? negate(a) : a);

export function compare(a: Rational, b: Rational): -1 | 0 | 1 {
  const [left, right] = [a.n * b.d, b.n * a.d];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** a to an integer power; throws `TooLarge` rather than compute a number of more than 40,000 bits. */
export function power(a: Rational, exponent: bigint): Rational {
  const size = exponent < 0n ? -exponent : exponent;
  if (a.d === 1n && a.n >= -1n && a.n <= 1n) return powerOfUnit(a, exponent);
  const bits = BigInt(Math.max(bitLength(a.n), bitLength(a.d)));
  if (bits * size > BigInt(MAX_BITS)) throw new TooLarge(`a power of more than ${MAX_BITS} bits`);
  const raised = rational(a.n ** size, a.d ** size);
  return exponent < 0n ? divide(ONE, raised) : raised;
}

function powerOfUnit(a: Rational, exponent: bigint): Rational {
  if (exponent === 0n) return ONE;
  if (a.n === 0n && exponent < 0n) throw new RangeError("division by zero");
  return a.n < 0n && exponent % 2n === 0n ? ONE : a;
}

function checked(value: Rational): Rational {
  if (bitLength(value.n) + bitLength(value.d) > MAX_BITS) throw new TooLarge(`a number of more than ${MAX_BITS} bits`);
  return value;
}

/** Bits of the magnitude, up to three too many. */
function bitLength(value: bigint): number {
  return (value < 0n ? -value : value).toString(16).length * 4;
}

const DECIMAL = /^([-+]?)(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d{1,4}))?$/;

/** A decimal as an exact rational: "-1.50", ".5", "6.02e23"; null for anything else, or more than 2,000 characters. */
export function parseDecimal(text: string): Rational | null {
  const match = text.length > 2000 ? null : DECIMAL.exec(text);
  if (match === null) return null;
  const [, sign, whole = "", fraction = "", exponent = "0"] = match;
  if (whole + fraction === "") return null;
  const value = rational(BigInt(whole + fraction), 10n ** BigInt(fraction.length));
  const scaled = multiply(value, power({ n: 10n, d: 1n }, BigInt(exponent)));
  return sign === "-" ? negate(scaled) : scaled;
}
