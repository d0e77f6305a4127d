/** Values of formulas to many digits, by the Compute Engine (cortexjs.io), which has no limits of its own and so runs in a worker. */
import type { Json } from "../../../../types.ts";
import { WorkerPool } from "../worker-pool.ts";

/** Real and imaginary part as decimals; null where the formula has no finite value. */
export type Decimals = readonly [re: string, im: string] | null;

/** MathJSON in, decimals out. */
const SOURCE = `
const { ComputeEngine } = require(paths["@cortex-js/compute-engine"]);
const engine = new ComputeEngine();
const decimal = /^-?[0-9]*\\.?[0-9]+(?:[eE][-+]?[0-9]+)?$/;
const digits = (value) => {
  if (typeof value === "number") return String(value);
  return value !== null && typeof value === "object" && "num" in value ? value.num : null;
};
const handle = ({ formulas, precision }) => {
  engine.precision = precision;
  engine.tolerance = 1e-300;
  return formulas.map((formula) => {
    try {
      const json = engine.box(formula).N().json;
      const pair = Array.isArray(json) ? (json[0] === "Complex" ? [digits(json[1]), digits(json[2])] : null) : [digits(json), "0"];
      return pair !== null && pair.every((part) => typeof part === "string" && decimal.test(part)) ? pair : null;
    } catch { return null; }
  });
};
// The first values take longer than all later ones; they belong to the start of a worker and not to a grading.
const first = [["Sqrt", 2], ["Sin", ["Divide", 1, 3]], ["Power", 2, ["Divide", 1, 3]], ["Ln", -2]];
const start = () => void handle({ formulas: first, precision: 200 });`;

interface EvaluateOptions {
  readonly precision: number;
  readonly seconds: number;
  readonly signal?: AbortSignal | undefined;
}

let shared: WorkerPool | null = null;

/** Workers are a resource of the machine and hold nothing of a grading, so the process has one pool. Rejects as `WorkerPool.run` does. */
export async function evaluateFormulas(
  formulas: readonly Json[],
  { precision, ...limits }: EvaluateOptions,
): Promise<{ readonly values: readonly Decimals[]; readonly milliseconds: number }> {
  shared ??= new WorkerPool({ source: SOURCE, modules: ["@cortex-js/compute-engine"] });
  const { value, milliseconds } = await shared.run({ formulas, precision }, limits);
  return { values: value as unknown as readonly Decimals[], milliseconds };
}
