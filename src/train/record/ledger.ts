/**
 * ledger.jsonl: the committed steps 1, 2, 3, … of a run, one a line. A step happened if and only if its line is there: its
 * metrics and trajectories are written before, and without the line they do not count.
 */
import { z } from "zod";
import { RunError, expected } from "../../errors.ts";

export interface LedgerEntry {
  readonly step: number;
  readonly tasks: readonly string[];
  /** Ids of the trajectories that the step recorded, each once. */
  readonly rollouts: readonly string[];
  /** Why the weights did not change in this step, for example "zero variance in every group". */
  readonly skipped?: string;
  /** Policy version after the step. */
  readonly version: number;
  /** The checkpoint that follows this step; it exists if its folder does. */
  readonly checkpoint?: string;
}

const entrySchema = z.strictObject({
  step: z.int().positive(),
  tasks: z.array(z.string()),
  rollouts: z.array(z.string()),
  skipped: z.string().exactOptional(),
  version: z.int().nonnegative(),
  checkpoint: z.string().exactOptional(),
});

export function encodeEntry(entry: LedgerEntry): string {
  return JSON.stringify(entry);
}

/** Reads the lines of a ledger; they must be the steps 1..n without a gap. */
export function decodeLedger(lines: readonly string[], where: string): LedgerEntry[] {
  return lines.map((line, index) => {
    const entry = decodeEntry(line, `${where} line ${index + 1}`);
    if (entry.step !== index + 1) throw new RunError(expected(`${where} line ${index + 1}`, `step ${index + 1}`, `step ${entry.step}`));
    return entry;
  });
}

/** Refuses an entry that is not the next step or that commits a rollout twice. */
export function checkNext(entry: LedgerEntry, last: number, where: string): void {
  if (entry.step !== last + 1) throw new RunError(expected(`${where}: next step`, String(last + 1), String(entry.step)));
  const seen = new Set<string>();
  for (const id of entry.rollouts) {
    if (seen.has(id)) throw new RunError(expected(`${where}: step ${entry.step}`, "each rollout once", `rollout ${id} twice`));
    seen.add(id);
  }
}

function decodeEntry(line: string, where: string): LedgerEntry {
  try {
    return entrySchema.parse(JSON.parse(line));
  } catch (cause) {
    throw new RunError(expected(where, "a committed step", line.slice(0, 80), "the file was edited or damaged"), { cause });
  }
}
