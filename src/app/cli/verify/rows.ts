/** What `flywheel verify` grades: rows of a file, or the recorded rollouts of a run folder. */
import { extname } from "node:path";
import { ConfigError, RunError, expected } from "../../../errors.ts";
import { isTable, tableRows } from "../../../loop/prompt/dataset/rows.ts";
import { finalAnswer } from "../../../loop/reward/final-answer.ts";
import { readRun, readTrajectories, trajectorySteps, type TrajectoryKind } from "../../../train/record/read-run.ts";
import { isRunFolder } from "../../../train/trained.ts";
import type { Json, JsonObject } from "../../../types.ts";

export interface VerifyRow {
  readonly id: string;
  readonly gold: Json;
  /** null: an episode that ended without an answer, with why. */
  readonly answer: string | null;
  readonly reason: string;
}

interface RowOptions {
  /** Name of the field or column, by default "gold"; of a run, a key of the task's data, by default "answer"; "." is all of it. */
  readonly gold?: string | undefined;
  /** The right answer is several fields, such as a statement and its header: all of it is the default. */
  readonly whole?: boolean;
  readonly answer: string;
  /** Of a run: the step, and whether its held-out evaluation is meant. */
  readonly step?: number | undefined;
  readonly eval?: boolean | undefined;
}

/** Throws for a file without rows, a row without the fields, a run without recorded rollouts. */
export async function readRows(path: string, options: RowOptions): Promise<readonly VerifyRow[]> {
  if (await isRunFolder(path)) return runRows(path, options);
  const ending = extname(path).toLowerCase();
  if (!isTable(path)) {
    const want = "a .jsonl, .csv or .parquet file, or a run folder";
    throw new ConfigError(expected(`verify ${path}`, want, ending === "" ? "no ending" : ending));
  }
  const rows: VerifyRow[] = [];
  for await (const { row, where, number } of tableRows(path)) rows.push(fileRow(row, where, { ...options, position: number }));
  if (rows.length === 0) throw new ConfigError(expected(`verify ${path}`, "at least one row", "none"));
  return rows;
}

function fileRow(record: JsonObject, where: string, options: RowOptions & { readonly position: number }): VerifyRow {
  const { answer, position } = options;
  const gold = options.gold ?? (options.whole === true && !Object.hasOwn(record, "gold") ? "." : "gold");
  for (const name of [gold, answer]) {
    if (name !== "." && !Object.hasOwn(record, name)) {
      throw new ConfigError(
        expected(where, `a field "${name}"`, Object.keys(record).join(", ") || "none", "name it with --gold or --answer"),
      );
    }
  }
  const given = record[answer]!;
  const id = record["id"];
  return {
    id: typeof id === "string" || typeof id === "number" ? String(id) : String(position),
    gold: gold === "." ? record : record[gold]!,
    answer: typeof given === "string" ? given : JSON.stringify(given),
    reason: "",
  };
}

async function runRows(folder: string, { whole, step, eval: held, ...options }: RowOptions): Promise<readonly VerifyRow[]> {
  const { gold = whole === true ? "." : "answer" } = options;
  const { ledger } = await readRun(folder);
  const kind: TrajectoryKind = held === true ? "eval" : "step";
  const chosen = step ?? (await trajectorySteps(folder, kind)).filter((each) => each <= ledger.length).at(-1);
  const records = chosen === undefined ? [] : await readTrajectories(folder, kind, chosen);
  if (records.length === 0) throw new RunError(expected(`run ${folder}`, `recorded rollouts of ${kind} ${chosen ?? ""}`.trim(), "none"));
  return records.map(({ scored: { trajectory } }) => {
    const final = finalAnswer(trajectory);
    const { data } = trajectory.task;
    const wanted = gold === "." ? data : Object.hasOwn(data, gold) ? data[gold] : undefined;
    if (wanted === undefined) {
      const known = Object.keys(data).join(", ");
      throw new ConfigError(
        expected(`run ${folder}: task ${trajectory.task.id}`, `data "${gold}"`, known || "none", "name it with --gold"),
      );
    }
    return {
      id: trajectory.id,
      gold: wanted,
      answer: final.type === "none" ? null : final.text,
      reason: final.type === "none" ? final.reason : "",
    };
  });
}
