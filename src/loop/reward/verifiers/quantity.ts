/** A number with its unit, converted exactly: 1.5 km is 1500 m. A tolerance is a stated relative difference, 0 unless given. */
import { RewardError, expected, scored } from "../../../errors.ts";
import type { Json } from "../../../types.ts";
import { afterMarker } from "../final-answer.ts";
import { compare, magnitude, multiply, parseDecimal, power, rational, subtract, type Rational } from "./rational.ts";
import { fromBase, parseUnit, sameDimension, toBase, type Unit } from "./units.ts";
import { shown, unscorable, verifierOf, type Verifier } from "./verifier.ts";

export interface QuantityOptions {
  /** Largest relative difference that counts as right; default 0, which is exact equality. */
  readonly tolerance?: number;
  /** "required" (default): an answer without the gold's unit is wrong. "optional": a bare number is taken to be in the gold's unit. */
  readonly unit?: "required" | "optional";
  /** If the answer contains this (case ignored), only what follows its last occurrence is read. */
  readonly after?: string;
}

interface Quantity {
  readonly value: Rational;
  /** null: none is written. */
  readonly unit: Unit | null;
}

const MAX_LENGTH = 200;
const QUANTITY =
  /^([-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)(?:\s*(?:e|E|(?:×|x|\*|\\times)\s*10\s*\^)\s*\{?\(?([-+−]?\d{1,3})\)?\}?)?\s*(.*)$/s;

/** Gold: "9.81 m/s^2", a number, or { value, unit }. The answer is one quantity and nothing else. */
export function quantity({ tolerance = 0, unit = "required", after }: QuantityOptions = {}): Verifier {
  if (!(tolerance >= 0 && tolerance < 1)) throw new RewardError(expected("quantity verifier: tolerance", "0 to 1", String(tolerance)));
  return verifierOf("quantity", ({ answer, gold }) => {
    const wanted = goldQuantity(gold);
    if (typeof wanted === "string") return unscorable(`the gold ${wanted}`);
    const stated = read(afterMarker(answer, after));
    if (typeof stated === "string") return scored(0, `the answer ${stated}`);
    return judge(wanted, stated, { tolerance, unit });
  });
}

function judge(wanted: Quantity, stated: Quantity, options: { readonly tolerance: number; readonly unit: "required" | "optional" }) {
  let value = stated.value;
  if (wanted.unit !== null && stated.unit === null && options.unit === "required") return scored(0, "the answer has no unit");
  if (wanted.unit === null && stated.unit !== null) {
    const plain = stated.unit.dimension.every((each) => each === 0);
    if (!plain) return scored(0, "the answer has a unit where the right one has none");
    value = toBase(value, stated.unit);
  }
  if (wanted.unit !== null && stated.unit !== null) {
    if (!sameDimension(wanted.unit, stated.unit)) return scored(0, "the answer's unit measures something else");
    value = fromBase(toBase(value, stated.unit), wanted.unit);
  }
  const limit = multiply(magnitude(wanted.value), parseDecimal(String(options.tolerance))!);
  const within = compare(magnitude(subtract(value, wanted.value)), limit) <= 0;
  return within ? scored(1, "is the right quantity") : scored(0, "is another quantity");
}

function goldQuantity(gold: Json): Quantity | string {
  if (typeof gold === "number") return read(String(gold));
  if (typeof gold === "string") return read(gold);
  if (gold !== null && typeof gold === "object" && !Array.isArray(gold)) {
    const { value, unit } = gold as { readonly value?: Json; readonly unit?: Json };
    if ((typeof value === "number" || typeof value === "string") && typeof unit === "string") return read(`${value} ${unit}`);
  }
  return 'is no text, number or { "value", "unit" }';
}

/** A quantity, or why the text is none. */
function read(text: string): Quantity | string {
  if (text.length > MAX_LENGTH * 4) return `has more than ${MAX_LENGTH} characters`;
  const flat = text
    .replace(/\\(?:text|mathrm|,|;|!)/g, "")
    .replace(/[{}$*`]/g, (mark) => (mark === "*" ? "*" : ""))
    .trim()
    .replace(/[.!]$/, "");
  const match = flat.length > MAX_LENGTH ? null : QUANTITY.exec(flat.replace(/^\*+|\*+$/g, ""));
  const digits = match?.[1]?.replaceAll(",", "").replace("−", "-") ?? "";
  const value = digits === "" ? null : parseDecimal(digits);
  if (match === null || value === null) return `"${shown(text)}" does not begin with a number`;
  const exponent = BigInt((match[2] ?? "0").replace("−", "-").replace("+", ""));
  const scaled = multiply(value, power(rational(10n), exponent));
  const rest = match[3]!.trim();
  if (rest === "") return { value: scaled, unit: null };
  const unit = parseUnit(rest);
  return unit === null ? `has "${shown(rest, 40)}", which is no known unit` : { value: scaled, unit };
}
