/** Reading a model without training it: log-probs or values of given rows, under any adapter. */
import type { TrainRow } from "../../../types.ts";
import { release, runForward, type Machine } from "./forward.ts";
import { runHead, select } from "./head.ts";
import { pack } from "./packing.ts";
import { checkRows, scatter, unitsByPrompt } from "./rows.ts";
import { releaseValues, runValues } from "./value-head.ts";

interface ScoreOptions {
  readonly read: "logprobs" | "values";
  readonly variant: string;
  readonly microBatchTokens: number;
  readonly logitBudget: number;
  readonly signal?: AbortSignal | undefined;
}

/** Runs `body` with a signal that every layer looks at. */
export async function abortable<T>(machine: Machine, signal: AbortSignal | undefined, body: () => Promise<T>): Promise<T> {
  machine.signal = signal;
  try {
    return await body();
  } finally {
    machine.signal = undefined;
  }
}

/** By row, one number for each trained position. Values ask for a variant with a scalar head. */
export function scoreRows(machine: Machine, rows: readonly TrainRow[], options: ScoreOptions): Promise<Float32Array[]> {
  return abortable(machine, options.signal, () => score(machine, rows, options));
}

async function score(machine: Machine, rows: readonly TrainRow[], options: ScoreOptions): Promise<Float32Array[]> {
  const { read, variant } = options;
  if (read === "values") machine.model.needScalarHead(variant, "values");
  checkRows(rows, { ...machine.model.architecture, end: read === "values" });
  const results: Float32Array[] = [];
  const units = unitsByPrompt(rows);
  for (const micro of pack({ units, scalars: {} }, options.microBatchTokens)) {
    const passes = await runForward(machine, micro, { variant, keep: "nothing" });
    const at = { pass: passes.rows, selection: select(micro) };
    let found: Float32Array;
    if (read === "values") {
      const head = await runValues(machine, at, variant);
      releaseValues(machine, head);
      found = head.values;
    } else {
      found = (await runHead(machine, at, { variant, entropy: false, logitBytes: options.logitBudget, backward: false })).logprobs;
    }
    scatter(micro, { values: found, put: (unit, index, values) => (results[units[unit]!.from + index] = values) });
    release(machine.pool, passes.rows);
  }
  return results;
}
