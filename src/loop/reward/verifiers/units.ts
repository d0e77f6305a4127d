/**
 * Units with exact conversion: SI base and derived units, the common imperial ones, time, angle, money as a name without a rate.
 * A unit is a rational factor to SI and the powers of seven base quantities. Temperatures have an offset and stand alone.
 */
import { ONE, add, divide, multiply, power, rational, subtract, type Rational } from "./rational.ts";

/** Powers of metre, kilogram, second, ampere, kelvin, mole, candela, degree of angle, bit. */
type Dimension = readonly number[];

export interface Unit {
  readonly factor: Rational;
  /** Added after the factor, for degrees Celsius and Fahrenheit. */
  readonly offset?: Rational;
  readonly dimension: Dimension;
}

const AXES = { m: 0, kg: 1, s: 2, A: 3, K: 4, mol: 5, cd: 6, deg: 7, bit: 8 } as const;
const dimension = (powers: Partial<Record<keyof typeof AXES, number>>): Dimension =>
  Object.keys(AXES).map((axis) => powers[axis as keyof typeof AXES] ?? 0);
const unit = (factor: Rational, powers: Partial<Record<keyof typeof AXES, number>>): Unit => ({ factor, dimension: dimension(powers) });
const q = (n: bigint, d = 1n): Rational => rational(n, d);

const LENGTH = { m: 1 };
const TIME = { s: 1 };
const MASS = { kg: 1 };
const VOLUME = { m: 3 };
const ENERGY = { kg: 1, m: 2, s: -2 };
/** 180/pi to 40 digits: the one factor that no rational is. */
const RADIAN = q(572957795130823208767981548141051703324n, 10n ** 37n);

/** Names as written, without plurals; names that take an SI prefix are in PREFIXABLE. */
const UNITS: Readonly<Record<string, Unit>> = {
  m: unit(ONE, LENGTH),
  metre: unit(ONE, LENGTH),
  meter: unit(ONE, LENGTH),
  micron: unit(q(1n, 10n ** 6n), LENGTH),
  in: unit(q(254n, 10000n), LENGTH),
  inch: unit(q(254n, 10000n), LENGTH),
  ft: unit(q(3048n, 10000n), LENGTH),
  foot: unit(q(3048n, 10000n), LENGTH),
  feet: unit(q(3048n, 10000n), LENGTH),
  yd: unit(q(9144n, 10000n), LENGTH),
  yard: unit(q(9144n, 10000n), LENGTH),
  mi: unit(q(1609344n, 1000n), LENGTH),
  mile: unit(q(1609344n, 1000n), LENGTH),
  nmi: unit(q(1852n), LENGTH),
  Å: unit(q(1n, 10n ** 10n), LENGTH),
  angstrom: unit(q(1n, 10n ** 10n), LENGTH),
  g: unit(q(1n, 1000n), MASS),
  gram: unit(q(1n, 1000n), MASS),
  t: unit(q(1000n), MASS),
  tonne: unit(q(1000n), MASS),
  lb: unit(q(45359237n, 10n ** 8n), MASS),
  pound: unit(q(45359237n, 10n ** 8n), MASS),
  oz: unit(q(45359237n, 16n * 10n ** 8n), MASS),
  ounce: unit(q(45359237n, 16n * 10n ** 8n), MASS),
  s: unit(ONE, TIME),
  sec: unit(ONE, TIME),
  second: unit(ONE, TIME),
  min: unit(q(60n), TIME),
  minute: unit(q(60n), TIME),
  h: unit(q(3600n), TIME),
  hr: unit(q(3600n), TIME),
  hour: unit(q(3600n), TIME),
  day: unit(q(86400n), TIME),
  week: unit(q(604800n), TIME),
  A: unit(ONE, { A: 1 }),
  ampere: unit(ONE, { A: 1 }),
  amp: unit(ONE, { A: 1 }),
  mol: unit(ONE, { mol: 1 }),
  mole: unit(ONE, { mol: 1 }),
  cd: unit(ONE, { cd: 1 }),
  candela: unit(ONE, { cd: 1 }),
  K: unit(ONE, { K: 1 }),
  kelvin: unit(ONE, { K: 1 }),
  "°C": { factor: ONE, offset: q(27315n, 100n), dimension: dimension({ K: 1 }) },
  "°F": { factor: q(5n, 9n), offset: q(45967n * 5n, 900n), dimension: dimension({ K: 1 }) },
  Hz: unit(ONE, { s: -1 }),
  hertz: unit(ONE, { s: -1 }),
  N: unit(ONE, { kg: 1, m: 1, s: -2 }),
  newton: unit(ONE, { kg: 1, m: 1, s: -2 }),
  Pa: unit(ONE, { kg: 1, m: -1, s: -2 }),
  pascal: unit(ONE, { kg: 1, m: -1, s: -2 }),
  bar: unit(q(100000n), { kg: 1, m: -1, s: -2 }),
  atm: unit(q(101325n), { kg: 1, m: -1, s: -2 }),
  J: unit(ONE, ENERGY),
  joule: unit(ONE, ENERGY),
  cal: unit(q(4184n, 1000n), ENERGY),
  calorie: unit(q(4184n, 1000n), ENERGY),
  eV: unit(q(1602176634n, 10n ** 28n), ENERGY),
  Wh: unit(q(3600n), ENERGY),
  W: unit(ONE, { kg: 1, m: 2, s: -3 }),
  watt: unit(ONE, { kg: 1, m: 2, s: -3 }),
  C: unit(ONE, { A: 1, s: 1 }),
  coulomb: unit(ONE, { A: 1, s: 1 }),
  V: unit(ONE, { kg: 1, m: 2, s: -3, A: -1 }),
  volt: unit(ONE, { kg: 1, m: 2, s: -3, A: -1 }),
  ohm: unit(ONE, { kg: 1, m: 2, s: -3, A: -2 }),
  Ω: unit(ONE, { kg: 1, m: 2, s: -3, A: -2 }),
  F: unit(ONE, { kg: -1, m: -2, s: 4, A: 2 }),
  farad: unit(ONE, { kg: -1, m: -2, s: 4, A: 2 }),
  T: unit(ONE, { kg: 1, s: -2, A: -1 }),
  tesla: unit(ONE, { kg: 1, s: -2, A: -1 }),
  L: unit(q(1n, 1000n), VOLUME),
  l: unit(q(1n, 1000n), VOLUME),
  litre: unit(q(1n, 1000n), VOLUME),
  liter: unit(q(1n, 1000n), VOLUME),
  gal: unit(q(3785411784n, 10n ** 12n), VOLUME),
  gallon: unit(q(3785411784n, 10n ** 12n), VOLUME),
  ha: unit(q(10000n), { m: 2 }),
  hectare: unit(q(10000n), { m: 2 }),
  acre: unit(q(40468564224n, 10n ** 7n), { m: 2 }),
  mph: unit(q(44704n, 100000n), { m: 1, s: -1 }),
  knot: unit(q(1852n, 3600n), { m: 1, s: -1 }),
  kph: unit(q(5n, 18n), { m: 1, s: -1 }),
  "°": unit(ONE, { deg: 1 }),
  deg: unit(ONE, { deg: 1 }),
  degree: unit(ONE, { deg: 1 }),
  rad: unit(RADIAN, { deg: 1 }),
  radian: unit(RADIAN, { deg: 1 }),
  arcmin: unit(q(1n, 60n), { deg: 1 }),
  arcsec: unit(q(1n, 3600n), { deg: 1 }),
  bit: unit(ONE, { bit: 1 }),
  byte: unit(q(8n), { bit: 1 }),
  B: unit(q(8n), { bit: 1 }),
  "%": unit(q(1n, 100n), {}),
  percent: unit(q(1n, 100n), {}),
  dozen: unit(q(12n), {}),
};
const PREFIXABLE = new Set(
  (
    "m metre meter g gram s second A ampere mol K Hz hertz N newton Pa pascal bar J joule " +
    "cal eV Wh W watt C V volt ohm Ω F T L l litre liter bit byte B rad"
  ).split(" "),
);
const PREFIXES: Readonly<Record<string, number>> = {
  Y: 24,
  Z: 21,
  E: 18,
  P: 15,
  T: 12,
  G: 9,
  M: 6,
  k: 3,
  h: 2,
  da: 1,
  d: -1,
  c: -2,
  m: -3,
  µ: -6,
  μ: -6,
  u: -6,
  n: -9,
  p: -12,
  f: -15,
  giga: 9,
  mega: 6,
  kilo: 3,
  hecto: 2,
  deci: -1,
  centi: -2,
  milli: -3,
  micro: -6,
  nano: -9,
};
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:per)\b/gi, "/"],
  [/\bsquared?\s+([\p{L}]+)/giu, "$1^2"],
  [/\bsq\.?\s+([\p{L}]+)/giu, "$1^2"],
  [/\bcubic\s+([\p{L}]+)/giu, "$1^3"],
  [/([\p{L}]+)\s+squared\b/giu, "$1^2"],
  [/([\p{L}]+)\s+cubed\b/giu, "$1^3"],
  [/(?:°|\bdegrees?|\bdeg)\s*(?:celsius|C)\b/gi, "°C"],
  [/(?:°|\bdegrees?|\bdeg)\s*(?:fahrenheit|F)\b/gi, "°F"],
  [/\bcelsius\b/gi, "°C"],
  [/\bfahrenheit\b/gi, "°F"],
  [/[·⋅×]/g, "*"],
  [/²/g, "^2"],
  [/³/g, "^3"],
  [/⁻¹/g, "^-1"],
  [/⁻²/g, "^-2"],
];

/** A unit such as "km/h", "kg m^2 s^-2", "square metres", "°F"; null for what is in no table. */
export function parseUnit(text: string): Unit | null {
  if (text.length > 80) return null;
  let rest = text.trim().replace(/\.$/, "");
  for (const [pattern, word] of WORDS) rest = rest.replace(pattern, word);
  const parts = rest
    .split(/([/*]|\s+)/)
    .map((part) => part.trim())
    .filter((part) => part !== "");
  if (parts.length === 1) return part(parts[0]!);
  let made: Unit = unit(ONE, {});
  let below = false;
  for (const each of parts) {
    if (each === "*") continue;
    if (each === "/") {
      below = true;
      continue;
    }
    const found = part(each);
    if (found === null || found.offset !== undefined) return null;
    made = times(made, found, below ? -1 : 1);
    // "J/kg K" is ambiguous; what follows a slash is below it, as most write.
  }
  return parts.length === 0 ? null : made;
}

function times(a: Unit, b: Unit, sign: 1 | -1): Unit {
  return {
    factor: sign === 1 ? multiply(a.factor, b.factor) : divide(a.factor, b.factor),
    dimension: a.dimension.map((value, axis) => value + sign * b.dimension[axis]!),
  };
}

function part(text: string): Unit | null {
  const match = /^(.+?)(?:\^\{?\(?(-?\d{1,2})\)?\}?)?$/.exec(text);
  const found = match === null ? null : named(match[1]!);
  const exponent = Number(match?.[2] ?? 1);
  if (found === null || exponent === 1) return found;
  if (found.offset !== undefined) return null;
  return { factor: power(found.factor, BigInt(exponent)), dimension: found.dimension.map((value) => value * exponent) };
}

function named(name: string): Unit | null {
  for (const candidate of [name, singular(name), name.toLowerCase(), singular(name.toLowerCase())]) {
    if (Object.hasOwn(UNITS, candidate)) return UNITS[candidate]!;
    // Lower-casing a symbol would make Mg a milligram: only whole words are looked up so.
    if (candidate !== name && candidate.length < 4) continue;
    for (const [prefix, exponent] of Object.entries(PREFIXES)) {
      const base = candidate.slice(prefix.length);
      if (!candidate.startsWith(prefix) || !PREFIXABLE.has(base) || prefix.length > 2 !== base.length > 3) continue;
      const scaled = UNITS[base]!;
      return { factor: multiply(scaled.factor, power(rational(10n), BigInt(exponent))), dimension: scaled.dimension };
    }
  }
  return null;
}

function singular(name: string): string {
  if (name === "inches") return "inch";
  return name.length > 3 && name.endsWith("s") ? name.slice(0, -1) : name;
}

export function sameDimension(a: Unit, b: Unit): boolean {
  return a.dimension.every((value, axis) => value === b.dimension[axis]);
}

/** The value in SI base units (angles in degrees, information in bits). */
export function toBase(value: Rational, { factor, offset }: Unit): Rational {
  const scaled = multiply(value, factor);
  return offset === undefined ? scaled : add(scaled, offset);
}

/** A value in base units, in the given unit. */
export function fromBase(value: Rational, { factor, offset }: Unit): Rational {
  return divide(offset === undefined ? value : subtract(value, offset), factor);
}
