/** Tasks from files of any size: each row is read once, checked, and made a task; what is kept is a task's text. */
import { stat } from "node:fs/promises";
import { basename, relative } from "node:path";
import { z } from "zod";
import { ConfigError, expected } from "../../../errors.ts";
import { hash32 } from "../../../random.ts";
import type { Json, JsonObject, Message, Task, TaskSource } from "../../../types.ts";
import { splitFiles } from "./folder.ts";
import { rowStore, type RowStore } from "./row-store.ts";
import { tableRows, type NamedRow } from "./rows.ts";
import { template, type Template } from "./template.ts";

export interface OpenDatasetOptions {
  /** The user's message, with columns in braces; default "{question}". */
  readonly prompt?: string;
  /** A column with a list of {role, content}, in place of `prompt`. The last assistant message and what follows it are left out. */
  readonly messages?: string;
  readonly system?: string;
  /** What the grader needs, with columns in braces; one column alone keeps its type. Default "{answer}". */
  readonly gold?: string;
  /** Of a gold that is text, what stands behind the last occurrence of this; GSM8K's is "####". */
  readonly goldAfter?: string;
  /** A right answer, where the gold is none. */
  readonly solution?: string;
  /** A column with an id; else the file and the row. */
  readonly id?: string;
  /** Columns that go into the tasks' data as they are. */
  readonly keep?: readonly string[];
  /** A file with the test split, or the split of a folder; default of a folder "test", or else "validation". */
  readonly test?: string;
  /** Without a test split: share of the rows that are kept for it, chosen by a hash of the prompt. */
  readonly testShare?: number;
  /** The train split of a folder; default "train". */
  readonly train?: string;
  /** A configuration of a folder's card, or a folder in it. */
  readonly subset?: string;
}

export interface OpenedDataset {
  readonly train: TaskSource;
  readonly test: TaskSource | null;
  /** The files that were read. */
  readonly files: readonly string[];
}

/**
 * Opens a .jsonl, .csv, .tsv or .parquet file, or a folder of them. A task's data is `{ gold, solution?, ...kept columns }`. Throws a
 * ConfigError that names file, row and column.
 */
export async function openDataset(path: string, options: OpenDatasetOptions = {}): Promise<OpenedDataset> {
  const { testShare = 0 } = options;
  if (!(testShare >= 0 && testShare < 1)) throw refused("testShare", "a number from 0 to below 1", String(testShare));
  const parts = await splitsOf(path, options);
  if (parts.test !== null && testShare > 0) {
    throw refused("testShare", "nothing where there is a test split", String(testShare));
  }
  const maker = taskMaker(options);
  const [train, test] = [rowStore(), rowStore()];
  const isTest = (prompt: Task["prompt"]): boolean => testShare > 0 && hash32(JSON.stringify(prompt)) < testShare * 2 ** 32;
  const known = options.id === undefined ? null : new Map<number, Place>();
  for (const split of ["train", "test"] as const) {
    for (const file of parts[split] ?? []) {
      // An id holds no folder above the data: it is a part of the random address, and data that was moved is the same data.
      const name = file === path ? basename(path) : parts.root === null ? `test/${basename(file)}` : relative(parts.root, file);
      await fill(file, { maker, name, known, storeOf: ({ prompt }) => (split === "test" || isTest(prompt) ? test : train) });
    }
  }
  return {
    train: sourceOf(`${path}, train split`, train),
    test: parts.test === null && testShare === 0 ? null : sourceOf(`${path}, test split`, test),
    files: [...parts.train, ...(parts.test ?? [])],
  };
}

const refused = (key: string, want: string, got: string): ConfigError =>
  new ConfigError(expected(`dataset: ${key}`, want, got, "see docs/datasets.md"));

interface SplitPaths {
  /** The folder that the files are in; null for single files. */
  readonly root: string | null;
  readonly train: readonly string[];
  readonly test: readonly string[] | null;
}

async function splitsOf(path: string, { train, test, subset }: OpenDatasetOptions): Promise<SplitPaths> {
  const found = await stat(path).catch(() => null);
  if (found === null) throw new ConfigError(expected(`dataset ${path}`, "a file or a folder", "nothing there"));
  if (!found.isDirectory()) {
    const extra = Object.entries({ train, subset }).find(([, value]) => value !== undefined);
    if (extra !== undefined) throw refused(extra[0], "nothing with a single file", extra[1]!);
    return { root: null, train: [path], test: test === undefined ? null : [test] };
  }
  const splits = await splitFiles(path, subset);
  const files = (name: string): readonly string[] => {
    const own = splits.get(name);
    if (own !== undefined) return own;
    throw new ConfigError(expected(`dataset ${path}`, `a split "${name}"`, `splits ${[...splits.keys()].join(", ")}`));
  };
  const held = test ?? ["test", "validation"].find((name) => name !== train && splits.has(name));
  return { root: path, train: files(train ?? "train"), test: held === undefined ? null : files(held) };
}

type TaskMaker = { readonly columns: readonly string[]; readonly make: (named: NamedRow, name: string) => Task };

function taskMaker({ messages, system, id, keep = [], goldAfter, ...options }: OpenDatasetOptions): TaskMaker {
  if (messages !== undefined && options.prompt !== undefined) {
    throw refused("prompt and messages", "one of them", "both");
  }
  const read = (name: string, source: string | undefined): Template | null =>
    source === undefined ? null : template(source, `dataset: ${name}`);
  const prompt = read("prompt", messages === undefined ? (options.prompt ?? "{question}") : undefined);
  const opening = read("system", system);
  const gold = template(options.gold ?? "{answer}", "dataset: gold");
  const solution = read("solution", options.solution);
  const own = [...(messages === undefined ? [] : [messages]), ...(id === undefined ? [] : [id]), ...keep];
  const columns = [...new Set([prompt, opening, gold, solution].flatMap((part) => part?.columns ?? []).concat(own))];
  return {
    columns,
    make({ row, where, number }, source) {
      const turns = prompt === null ? chatOf(row, messages!, where) : [user(prompt.text(row, where))];
      const first: Message[] = opening === null ? [] : [{ role: "system", content: opening.text(row, where) }];
      const kept = keep.map((column): [string, Json] => [column, cell(row, column, where)]);
      const right = behind(gold.value(row, where), goldAfter, where);
      const more = solution === null ? {} : { solution: solution.text(row, where) };
      const name = id === undefined ? `${source}:${number}` : asId(cell(row, id, where), `${where} column "${id}"`);
      return { id: name, prompt: [...first, ...turns], data: { ...Object.fromEntries(kept), gold: right, ...more } };
    },
  };
}

const user = (content: string): Message => ({ role: "user", content });

function cell(row: JsonObject, column: string, where: string): Json {
  if (Object.hasOwn(row, column)) return row[column]!;
  throw new ConfigError(expected(`${where} column "${column}"`, "to be there", `columns ${Object.keys(row).join(", ")}`));
}

function asId(value: Json, where: string): string {
  if (typeof value === "number" || (typeof value === "string" && value !== "")) return String(value);
  throw new ConfigError(expected(where, "a text or a number", JSON.stringify(value)));
}

function behind(gold: Json, after: string | undefined, where: string): Json {
  if (after === undefined) return gold;
  const at = typeof gold === "string" ? gold.lastIndexOf(after) : -1;
  if (typeof gold === "string" && at >= 0) return gold.slice(at + after.length).trim();
  throw new ConfigError(expected(`${where}: gold`, `a text with "${after}"`, JSON.stringify(gold).slice(0, 60)));
}

const chat = z.array(z.looseObject({ role: z.enum(["system", "user", "assistant"]), content: z.string() })).min(1);

/** A conversation up to where the policy speaks. */
function chatOf(row: JsonObject, column: string, where: string): Message[] {
  const parsed = chat.safeParse(cell(row, column, where));
  const at = `${where} column "${column}"`;
  if (!parsed.success) throw new ConfigError(expected(at, "a list of {role, content}", JSON.stringify(row[column]).slice(0, 60)));
  const turns = parsed.data.map(({ role, content }): Message => ({ role, content }));
  const end = turns.at(-1)!.role === "assistant" ? turns.length - 1 : turns.length;
  if (turns[end - 1]?.role === "user") return turns.slice(0, end);
  throw new ConfigError(expected(at, "a message of the user before the policy speaks", JSON.stringify(turns.map(({ role }) => role))));
}

interface Place {
  readonly store: RowStore;
  readonly index: number;
}

interface Filling {
  readonly maker: TaskMaker;
  readonly name: string;
  /** Rows by a hash of their id; null where ids are made. */
  readonly known: Map<number, Place> | null;
  readonly storeOf: (task: Task) => RowStore;
}

async function fill(file: string, { maker: { columns, make }, name, known, storeOf }: Filling): Promise<void> {
  for await (const named of tableRows(file, columns)) {
    const task = make(named, name);
    const store = storeOf(task);
    if (known !== null) {
      const key = hash32(task.id) * 2 ** 20 + (hash32(`${task.id}/`) >>> 12);
      const before = known.get(key);
      if (before !== undefined && (JSON.parse(before.store.at(before.index)) as Task).id === task.id) {
        throw new ConfigError(expected(`${named.where}: id`, "one that no earlier row has", JSON.stringify(task.id)));
      }
      known.set(key, { store, index: store.size });
    }
    store.add(JSON.stringify(task));
  }
}

function sourceOf(name: string, store: RowStore): TaskSource {
  if (store.size === 0) throw new ConfigError(expected(`dataset ${name}`, "at least one row", "none"));
  return {
    size: store.size,
    at(index) {
      if (Number.isInteger(index) && index >= 0 && index < store.size) return JSON.parse(store.at(index)) as Task;
      throw new ConfigError(expected(`dataset ${name}`, `an index from 0 to ${store.size - 1}`, String(index)));
    },
  };
}
