/** Answers put under other prompts: what KTO's estimate of the KL divergence is taken over. */
import type { Batch, TrainRow } from "../../types.ts";

/**
 * For each unit its prompt with the answer of the next unit that has another prompt (the last wraps around); left out where there is
 * none, or the row would be longer than the context.
 */
export function mismatchedRows({ units }: Batch, contextLength: number): TrainRow[] {
  const rows = units.map((unit) => unit.rows[0]!);
  const prompts = rows.map(({ ids, trained }) => ids.subarray(0, trained[0]));
  return rows.flatMap((own, i) => {
    const prompt = prompts[i]!;
    const others = [...rows.keys()].map((step) => (i + 1 + step) % rows.length);
    const other = others.find((j) => !sameIds(prompts[j]!, prompt));
    if (other === undefined) return [];
    const { ids, trained } = rows[other]!;
    const start = trained[0]!;
    const joined = Int32Array.from([...prompt, ...ids.subarray(start)]);
    if (joined.length > contextLength) return [];
    return [{ ids: joined, trained: trained.map((t) => t - start + prompt.length), fields: {}, temperature: own.temperature }];
  });
}

const sameIds = (a: Int32Array, b: Int32Array): boolean => a.length === b.length && a.every((id, t) => id === b[t]);
