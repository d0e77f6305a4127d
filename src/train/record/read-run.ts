/** Reading a run folder without writing to it or locking it: always the committed prefix, also while another process trains. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RunError, expected } from "../../errors.ts";
import type { JsonObject } from "../../types.ts";
import { listFolder, readLines } from "./files.ts";
import { type LedgerEntry, decodeLedger } from "./ledger.ts";
import { type MetricsRow, decodeMetricsRow } from "./metrics.ts";
import { type RolloutRecord, decodeRollout } from "./trajectory-codec.ts";

export type TrajectoryKind = "step" | "eval";

export interface RunRecord {
  readonly folder: string;
  readonly config: JsonObject;
  readonly plan: JsonObject;
  readonly ledger: readonly LedgerEntry[];
  /** Rows of committed steps (and of step 0). */
  readonly metrics: readonly MetricsRow[];
}

export async function readRun(folder: string): Promise<RunRecord> {
  if (!(await listFolder(folder)).includes("config.json")) {
    throw new RunError(expected(`run ${folder}`, "a run folder (with config.json)", "none", "give the path, for example runs/<name>"));
  }
  const ledgerPath = join(folder, "ledger.jsonl");
  const ledger = decodeLedger((await readLines(ledgerPath)).lines, ledgerPath);
  const metricsPath = join(folder, "metrics.jsonl");
  const rows = (await readLines(metricsPath)).lines.map((line, index) => decodeMetricsRow(line, `${metricsPath} line ${index + 1}`));
  return {
    folder,
    config: await readJsonObject(join(folder, "config.json")),
    plan: await readJsonObject(join(folder, "plan.json")),
    ledger,
    metrics: rows.filter((row) => row.step <= ledger.length),
  };
}

/** Path of the recorded rollouts of a training step, or of the evaluation after it. */
export function trajectoryFile(folder: string, kind: TrajectoryKind, step: number): string {
  return join(folder, "trajectories", `${kind}-${String(step).padStart(6, "0")}.jsonl`);
}

/** Steps that have recorded rollouts, ascending. */
export async function trajectorySteps(folder: string, kind: TrajectoryKind): Promise<number[]> {
  const names = await listFolder(join(folder, "trajectories"));
  return names.filter((name) => name.startsWith(`${kind}-`)).map((name) => Number.parseInt(name.slice(kind.length + 1), 10));
}

export async function readTrajectories(folder: string, kind: TrajectoryKind, step: number): Promise<RolloutRecord[]> {
  const path = trajectoryFile(folder, kind, step);
  const { lines } = await readLines(path);
  return lines.map((line, index) => decodeRollout(line, `${path} line ${index + 1}`));
}

export async function readJsonObject(path: string): Promise<JsonObject> {
  try {
    return z.record(z.string(), z.json()).parse(JSON.parse(await readFile(path, "utf8")));
  } catch (cause) {
    throw new RunError(expected(path, "a JSON object", "a missing or damaged file"), { cause });
  }
}
