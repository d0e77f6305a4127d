/**
 * metrics.jsonl: one object a line, `{"step": n, "reward/mean": 0.5, …}`. A number that is not finite is written as the string
 * "NaN", "Infinity" or "-Infinity", so that it is never mistaken for a missing value. Rows of one step add up to one row.
 */
import { z } from "zod";
import { RunError, expected } from "../../errors.ts";
import { encodeMetrics } from "../../json.ts";

/** `step` is the training step that the numbers belong to; 0 is before training. */
export type MetricsRow = { readonly step: number } & { readonly [key: string]: number };

/** One array a key, aligned with `steps`; undefined where a step has no such value. */
export interface MetricColumns {
  readonly steps: readonly number[];
  readonly columns: ReadonlyMap<string, readonly (number | undefined)[]>;
}

const rowSchema = z.record(z.string(), z.union([z.number(), z.literal(["NaN", "Infinity", "-Infinity"]).transform(Number)]));

export function encodeMetricsRow(row: MetricsRow): string {
  checkStep(row.step, "metrics row");
  return encodeMetrics(row);
}

export function decodeMetricsRow(line: string, where: string): MetricsRow {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new RunError(expected(where, "a JSON object", line.slice(0, 60)));
  }
  const parsed = rowSchema.safeParse(value);
  if (!parsed.success) throw new RunError(expected(where, "an object of numbers", line.slice(0, 60)));
  const { step, ...rest } = parsed.data;
  return { step: checkStep(step, where), ...rest };
}

export function toColumns(rows: readonly MetricsRow[]): MetricColumns {
  const merged = new Map<number, Record<string, number>>();
  for (const { step, ...values } of rows) merged.set(step, { ...merged.get(step), ...values });
  const steps = [...merged.keys()].sort((a, b) => a - b);
  const keys = new Set(steps.flatMap((step) => Object.keys(merged.get(step) ?? {})));
  const columns = new Map([...keys].map((key) => [key, steps.map((step) => merged.get(step)?.[key])] as const));
  return { steps, columns };
}

function checkStep(step: number | undefined, where: string): number {
  if (step === undefined || !Number.isInteger(step) || step < 0) throw new RunError(expected(where, "a step >= 0", String(step)));
  return step;
}
