/** What a second engine is given of an answer. */
import type { Json } from "../../../../types.ts";
import { isScalar, type Expr } from "./expression.ts";
import { mathJson } from "./numeric.ts";

export interface Formula {
  /** As one line: (1/2)*x^2. null: it is no formula of numbers and symbols. */
  readonly text: string | null;
  /** The same as MathJSON. */
  readonly mathJson: Json | null;
}

/** A second opinion on two formulas that the first engine could not decide; null: it has none either. */
export interface SecondEngine {
  readonly name: string;
  equal(gold: Formula, answer: Formula, signal?: AbortSignal): Promise<boolean | null>;
}

export function formulaOf(expr: Expr): Formula {
  return isScalar(expr) ? { text: infix(expr), mathJson: mathJson(expr) } : { text: null, mathJson: null };
}

const OPERATORS: Readonly<Record<string, string>> = { Add: "+", Subtract: "-", Multiply: "*", Divide: "/", Power: "^" };
const NAMES: Readonly<Record<string, string>> = { Pi: "pi", ExponentialE: "e", ImaginaryUnit: "i", PositiveInfinity: "infinity" };

function infix(expr: Expr): string {
  if (expr.kind === "number") return expr.value.d === 1n ? String(expr.value.n) : `(${expr.value.n}/${expr.value.d})`;
  if (expr.kind === "symbol") return Object.hasOwn(NAMES, expr.name) ? NAMES[expr.name]! : expr.name;
  if (expr.kind !== "apply") return "?";
  const args = expr.args.map(infix);
  const operator = Object.hasOwn(OPERATORS, expr.head) ? OPERATORS[expr.head] : undefined;
  if (operator !== undefined) return `(${args[0]}${operator}${args[1]})`;
  switch (expr.head) {
    case "Negate":
      return `(-${args[0]})`;
    case "Factorial":
      return `(${args[0]}!)`;
    case "Root":
      return `(${args[0]}^(1/${args[1]}))`;
    case "Choose":
      return `binomial(${args.join(", ")})`;
    case "Sum":
    case "Product":
      return `${expr.head.toLowerCase()}(${args[0]}, ${args[1]}=${args[2]} to ${args[3]})`;
    default:
      return `${expr.head.toLowerCase()}(${args.join(", ")})`;
  }
}
