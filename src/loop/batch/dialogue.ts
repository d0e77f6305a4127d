/** Supervised rows from dialogues. */
import type { EncodedDialogue } from "../../compute/text/dialogue.ts";
import type { Batch, Reduction, TrainRow } from "../../types.ts";

/** A supervised batch, one unit a row; weights by the stated reduction over the whole batch. */
export function supervisedBatch(rows: readonly EncodedDialogue[], reduction: Exclude<Reduction, "constant">): Batch {
  const tokens = rows.reduce((sum, { trained }) => sum + trained.length, 0);
  const units = rows.map(({ ids, trained }) => {
    const weight = reduction === "token-mean" ? 1 / tokens : 1 / (rows.length * trained.length);
    const row: TrainRow = { ids, trained, fields: { weight: new Float32Array(trained.length).fill(weight) }, temperature: 1 };
    return { rows: [row] };
  });
  return { units, scalars: { tokens } };
}
