/** Tasks from a JSONL file or an array: each row has a question and whatever the grader needs. */
import { basename } from "node:path";
import { z } from "zod";
import { dataLines, parseDataLine, readDataFile } from "../../data-file.ts";
import { ConfigError, expected } from "../../errors.ts";
import type { JsonObject, Message, Task, TaskSource } from "../../types.ts";

export interface DatasetOptions {
  /** Field that holds the user's message; a row with `messages` needs none. */
  readonly question?: string;
  /** Fields that must be there, for the grader. */
  readonly needs?: readonly string[];
  readonly system?: string;
}

const messageSchema = z.looseObject({ role: z.enum(["system", "user", "assistant", "tool"]), content: z.string() });

/** Reads a JSONL file whole and checks every row now, so that a bad one is named before anything runs. */
export function dataset(path: string, options: DatasetOptions = {}): TaskSource {
  const rows: NamedRow[] = [];
  for (const line of dataLines(readDataFile(path, "dataset"), path)) {
    if (line.text.trim() === "") continue;
    // An id holds no folder: it is a part of the random address, and a file that was moved is the same data.
    rows.push({ row: parseDataLine(line), where: line.where, id: `${basename(path)}:${line.number}` });
  }
  return sourceOf(path, rows, options);
}

/** Tasks from rows in memory. */
export function tasksFrom(
  rows: readonly JsonObject[],
  { name = "rows", ...options }: DatasetOptions & { readonly name?: string } = {},
): TaskSource {
  const named = rows.map((row, i): NamedRow => ({ row, where: `${name} row ${i + 1}`, id: `${name}:${i + 1}` }));
  return sourceOf(name, named, options);
}

interface NamedRow {
  readonly row: JsonObject;
  readonly where: string;
  /** Used where the row has none of its own. */
  readonly id: string;
}

function sourceOf(name: string, rows: readonly NamedRow[], options: DatasetOptions): TaskSource {
  if (rows.length === 0) throw new ConfigError(expected(`dataset ${name}`, "at least one row", "none"));
  const tasks = rows.map((row) => taskOf(row, options));
  const places = new Map<string, string>();
  tasks.forEach(({ id }, i) => {
    const first = places.get(id);
    const { where } = rows[i]!;
    if (first !== undefined) throw new ConfigError(expected(`${where} field "id"`, "an id used once", `"${id}", the id of ${first}`));
    places.set(id, where);
  });
  return { size: tasks.length, at: (index) => tasks[index]! };
}

function taskOf({ row, where, id: own }: NamedRow, { question = "question", needs = [], system }: DatasetOptions): Task {
  const has = (field: string): boolean => Object.hasOwn(row, field) && row[field] !== undefined;
  const missing = [...(has("messages") ? [] : [question]), ...needs].find((field) => !has(field));
  if (missing !== undefined) {
    throw new ConfigError(
      expected(where, `a field "${missing}"`, `fields ${Object.keys(row).join(", ")}`, "rename the field or say which one to use"),
    );
  }
  const opening: Message[] = system === undefined ? [] : [{ role: "system", content: system }];
  const id = typeof row["id"] === "string" || typeof row["id"] === "number" ? String(row["id"]) : own;
  return { id, prompt: [...opening, ...promptOf(row, where, question)], data: row };
}

function promptOf(row: JsonObject, where: string, question: string): Message[] {
  if (row["messages"] === undefined) return [{ role: "user", content: textOf(row[question], `${where} field "${question}"`) }];
  const parsed = z.array(messageSchema).min(1).safeParse(row["messages"]);
  if (!parsed.success)
    throw new ConfigError(expected(`${where} field "messages"`, "a list of {role, content}", JSON.stringify(row["messages"]).slice(0, 60)));
  return parsed.data.map(({ role, content }) => ({ role, content }));
}

function textOf(value: unknown, where: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw new ConfigError(expected(where, "a text that is not empty", JSON.stringify(value) ?? "nothing"));
}
