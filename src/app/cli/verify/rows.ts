/** What `flywheel verify` grades: rows of a JSONL or CSV file, or the recorded rollouts of a run folder. */
import { extname } from "node:path";
import { z } from "zod";
import { dataLines, readDataFile } from "../../../data-file.ts";
import { ConfigError, RunError, expected, messageOf } from "../../../errors.ts";
import { parseJsonStrict } from "../../../json.ts";
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
  if (ending !== ".csv" && ending !== ".jsonl" && ending !== ".ndjson") {
    throw new ConfigError(expected(`verify ${path}`, "a .jsonl or .csv file, or a run folder", ending === "" ? "no ending" : ending));
  }
  const lines = [...dataLines(readDataFile(path, "verify"), path)];
  const records = ending === ".csv" ? csvRecords(lines.map(({ text }) => text).join("\n"), path) : jsonRecords(lines);
  if (records.length === 0) throw new ConfigError(expected(`verify ${path}`, "at least one row", "none"));
  return records.map((record, i) => fileRow(record, `${path} row ${i + 1}`, { ...options, position: i + 1 }));
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

/** A number that a double would change is kept as its text, so that it is graded as it was written. */
function jsonRecords(lines: readonly { readonly text: string; readonly where: string }[]): JsonObject[] {
  return lines.flatMap(({ text, where }) => {
    if (text.trim() === "") return [];
    let value: Json;
    try {
      value = parseJsonStrict(text);
    } catch (cause) {
      throw new ConfigError(expected(where, "a JSON object", messageOf(cause)));
    }
    const object = z.record(z.string(), z.json()).safeParse(value);
    if (!object.success) throw new ConfigError(expected(where, "a JSON object", JSON.stringify(value).slice(0, 40)));
    return [object.data];
  });
}

/** RFC 4180: quoted cells may hold commas, quotes (doubled) and ends of line. The first record names the columns. */
export function csvRecords(text: string, path: string): JsonObject[] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let at = text.startsWith("\ufeff") ? 1 : 0;
  const endRow = (): void => {
    row.push(cell);
    if (row.length > 1 || row[0] !== "") rows.push(row);
    [row, cell] = [[], ""];
  };
  while (at < text.length) {
    const character = text[at++]!;
    if (character === '"' && cell === "") {
      for (;;) {
        const close = text.indexOf('"', at);
        if (close < 0) throw new ConfigError(expected(`${path} row ${rows.length + 1}`, "a closing quote", "the end of the file"));
        cell += text.slice(at, close);
        at = close + 1;
        if (text[at] !== '"') break;
        cell += '"';
        at++;
      }
    } else if (character === ",") {
      row.push(cell);
      cell = "";
    } else if (character === "\n") endRow();
    else if (character !== "\r") cell += character;
  }
  endRow();
  const [names = [], ...records] = rows;
  return records.map((cells, i) => {
    if (cells.length !== names.length) {
      throw new ConfigError(expected(`${path} row ${i + 1}`, `${names.length} cells`, String(cells.length)));
    }
    return Object.fromEntries(cells.map((value, column) => [names[column]!.trim(), value]));
  });
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
