/** Training rows: what is refused, how rows of one prompt are put together, and how per-token numbers go in and out. */
import { PolicyError, expected } from "../../../errors.ts";
import type { TrainRow } from "../../../types.ts";
import type { MicroBatch } from "./packing.ts";

interface RowLimits {
  readonly context: number;
  readonly vocabulary: number;
  /** Position ids.length, the state after the whole row, is allowed: it has a value but no token. */
  readonly end: boolean;
}

/** Refuses rows that cannot be computed on: too long, unknown ids, nothing trained, positions out of order. */
export function checkRows(rows: readonly TrainRow[], { context, vocabulary, end }: RowLimits): void {
  rows.forEach(({ ids, trained, temperature }, i) => {
    const where = `training row ${i}`;
    const last = end ? ids.length : ids.length - 1;
    if (ids.length > context) throw new PolicyError(expected(where, `at most ${context} tokens (the model's context)`, String(ids.length)));
    if (trained.length === 0) throw new PolicyError(expected(where, "at least one trained token", "0"));
    const wrong = ids.findIndex((id) => id < 0 || id >= vocabulary);
    if (wrong >= 0) throw new PolicyError(expected(`${where} position ${wrong}`, `a token id below ${vocabulary}`, String(ids[wrong])));
    trained.forEach((t, j) => {
      if (t >= 1 && t <= last && (j === 0 || t > trained[j - 1]!)) return;
      const remedy = t === ids.length ? "only a loss that reads values alone may train the state after the last token" : undefined;
      throw new PolicyError(expected(`${where} trained[${j}]`, `an increasing position in 1..${last}`, String(t), remedy));
    });
    if (!(temperature > 0)) throw new PolicyError(expected(`${where} temperature`, "above 0", String(temperature)));
  });
}

export function checkFields(rows: readonly TrainRow[], names: readonly string[]): void {
  rows.forEach(({ fields, trained }, i) => {
    for (const name of names) {
      const length = fields[name]?.length;
      if (length !== trained.length)
        throw new PolicyError(
          expected(`training row ${i} field ${name}`, `${trained.length} values, one for each trained token`, String(length ?? "none")),
        );
    }
  });
}

/** Rows with the same prompt next to each other become one unit, so that the prompt is computed once. */
export function unitsByPrompt(rows: readonly TrainRow[]): { rows: TrainRow[]; from: number }[] {
  const units: { rows: TrainRow[]; from: number }[] = [];
  rows.forEach((row, i) => {
    const last = units.at(-1);
    const head = last?.rows[0];
    const same =
      head !== undefined && head.trained[0] === row.trained[0] && head.ids.subarray(0, head.trained[0]).every((id, t) => id === row.ids[t]);
    if (same) last!.rows.push(row);
    else units.push({ rows: [row], from: i });
  });
  return units;
}

/** Hands each row its part of `values`, which are in slot order. */
export function scatter(
  micro: MicroBatch,
  { values, put }: { values: Float32Array; put: (unit: number, index: number, values: Float32Array) => void },
): void {
  let at = 0;
  for (const slot of micro.slots) {
    if (slot === undefined) continue;
    put(slot.unit, slot.index, values.slice(at, at + slot.row.trained.length));
    at += slot.row.trained.length;
  }
}

/** Fields of all trained tokens, in slot order. */
export function gatherFields(micro: MicroBatch, names: readonly string[], count: number): Map<string, Float32Array> {
  const fields = new Map(names.map((name) => [name, new Float32Array(count)]));
  let at = 0;
  for (const slot of micro.slots) {
    if (slot === undefined) continue;
    for (const [name, values] of fields) values.set(slot.row.fields[name]!, at);
    at += slot.row.trained.length;
  }
  return fields;
}
