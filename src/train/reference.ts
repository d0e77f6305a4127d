/**
 * The reference's log-probs of given examples, as the field "reference" of a batch: by a pass of the adapter "reference" at every step,
 * or from one pass before the first step, which the run folder keeps.
 */
import { access } from "node:fs/promises";
import { join } from "node:path";
import { openSafetensors, writeSafetensors } from "../compute/models/files/safetensors.ts";
import { RunError, expected } from "../errors.ts";
import type { Batch, Engine, OfflineAlgorithm, TrainRow } from "../types.ts";
import { batchOf, type Example } from "./examples.ts";
import type { Run } from "./record/run-folder.ts";

/** Gives the batch of the examples at `indices` its reference, if the algorithm has one. */
export type AddReference = (batch: Batch, indices: readonly number[]) => Promise<Batch>;

interface ReferenceOptions {
  readonly algorithm: OfflineAlgorithm;
  readonly examples: readonly Example[];
  readonly engine: Engine;
  readonly run: Pick<Run, "folder" | "lastStep">;
  readonly signal?: AbortSignal;
}

/** Whether an algorithm's reference is computed once, so that the engine need not keep one. */
export function isPrecomputed({ settings }: Pick<OfflineAlgorithm, "settings">): boolean {
  return settings["reference"] === "precomputed";
}

const fileName = "reference.safetensors";

export async function openReference(options: ReferenceOptions): Promise<AddReference> {
  const { algorithm, engine } = options;
  if (!algorithm.needsReference) return (batch) => Promise.resolve(batch);
  const abort = options.signal === undefined ? {} : { signal: options.signal };
  if (!isPrecomputed(algorithm)) {
    return async (batch) => withField(batch, await engine.logprobs(rowsOf(batch), { adapter: "reference", ...abort }));
  }
  const known = await precomputed(options);
  return (batch, indices) => Promise.resolve(withField(batch, indices.flatMap((index) => known[index]!)));
}

const rowsOf = ({ units }: Batch): TrainRow[] => units.flatMap(({ rows }) => [...rows]);

function withField(batch: Batch, reference: readonly Float32Array[]): Batch {
  let next = 0;
  const add = (row: TrainRow): TrainRow => ({ ...row, fields: { ...row.fields, reference: reference[next++]! } });
  return { ...batch, units: batch.units.map(({ rows }) => ({ rows: rows.map(add) })) };
}

/** Per example and row; read from the run folder, or computed and written there before the first step. */
async function precomputed({ algorithm, examples, engine, run, signal }: ReferenceOptions): Promise<Float32Array[][]> {
  const path = join(run.folder, fileName);
  const units = batchOf(examples, algorithm).units;
  const counts = units.map(({ rows }) => rows.map(({ trained }) => trained.length));
  const total = counts.flat().reduce((a, b) => a + b, 0);
  let flat: Float32Array;
  if (await exists(path)) flat = await readFlat(path, total);
  else {
    if (run.lastStep > 0) {
      const want = "the reference's log-probs from before the first step";
      throw new RunError(expected(path, want, "no such file", "restore it or start a new run"));
    }
    // Nothing has been trained yet: the policy is its own reference.
    const rows = units.flatMap((unit) => [...unit.rows]);
    const scores = await engine.logprobs(rows, { adapter: "policy", ...(signal === undefined ? {} : { signal }) });
    flat = new Float32Array(total);
    let at = 0;
    for (const score of scores) {
      flat.set(score, at);
      at += score.length;
    }
    await writeSafetensors(path, [{ name: "logprobs", shape: [total], data: flat }]);
  }
  let at = 0;
  return counts.map((lengths) => lengths.map((length) => flat.subarray(at, (at += length))));
}

async function readFlat(path: string, total: number): Promise<Float32Array> {
  const source = await openSafetensors(path);
  try {
    const flat = await source.read("logprobs");
    if (flat.length === total) return flat;
    const want = `${total} log-probs, one for each trained token of the data`;
    throw new RunError(expected(path, want, String(flat.length), "the data was changed"));
  } finally {
    await source.close();
  }
}

const exists = (path: string): Promise<boolean> => access(path).then(() => true, () => false);
