/** Rows of JSONL, CSV, TSV and Parquet files, one after another: no file is held whole. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { extname } from "node:path";
import { parse } from "csv-parse";
import { ConfigError, expected, messageOf } from "../../../errors.ts";
import { parseJsonStrict } from "../../../json.ts";
import type { Json, JsonObject } from "../../../types.ts";

export interface NamedRow {
  readonly row: JsonObject;
  /** File and row, for messages. */
  readonly where: string;
  /** From 1. */
  readonly number: number;
}

type Reader = (path: string, columns: readonly string[] | undefined) => AsyncIterable<NamedRow>;

const readers: Readonly<Record<string, Reader>> = {
  ".jsonl": jsonLines,
  ".ndjson": jsonLines,
  ".json": jsonLines,
  ".csv": (path) => separated(path, ","),
  ".tsv": (path) => separated(path, "\t"),
  ".parquet": parquet,
};

export const isTable = (path: string): boolean => Object.hasOwn(readers, extname(path).toLowerCase());

/**
 * The rows of a file, by its ending. Of Parquet only `columns` are read (all if left out), a group of rows at a time. Throws a
 * ConfigError that names file and row.
 */
export async function* tableRows(path: string, columns?: readonly string[]): AsyncGenerator<NamedRow> {
  const reader = readers[extname(path).toLowerCase()];
  const found = await stat(path).catch(() => null);
  const refused = (want: string, got: string): ConfigError => new ConfigError(expected(`dataset ${path}`, want, got));
  if (found?.isFile() !== true) throw refused("a file that can be read", found === null ? "nothing there" : "a folder");
  if (reader === undefined) throw refused(`an ending of ${Object.keys(readers).join(", ")}`, extname(path) || "none");
  yield* reader(path, columns);
}

/** A number that a double would change stays as its text, so that it is what was written. */
async function* jsonLines(path: string): AsyncGenerator<NamedRow> {
  let number = 0;
  for await (const line of textLines(path)) {
    number++;
    if (line.trim() === "") continue;
    const where = `${path} line ${number}`;
    let row: Json;
    try {
      row = parseJsonStrict(line);
    } catch (cause) {
      throw new ConfigError(expected(where, "a JSON object", messageOf(cause)), { cause });
    }
    if (typeof row !== "object" || row === null || Array.isArray(row)) {
      throw new ConfigError(expected(where, "a JSON object", line.slice(0, 40)));
    }
    yield { row: row as JsonObject, where, number };
  }
}

/** Lines end with a line feed alone: other separators of Unicode may stand inside of JSON texts. */
async function* textLines(path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decoded = (chunk?: Buffer): string => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch (cause) {
      throw new ConfigError(expected(`dataset ${path}`, "UTF-8 text", "bytes that are none"), { cause });
    }
  };
  const pieces: string[] = [];
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 18 })) {
    const text = decoded(chunk as Buffer);
    const lines = text.split("\n");
    pieces.push(lines[0]!);
    for (const next of lines.slice(1)) {
      yield pieces.splice(0).join("");
      pieces.push(next);
    }
  }
  const last = pieces.join("") + decoded();
  if (last !== "") yield last;
}

/** RFC 4180; the first record names the columns, and every other has as many cells. */
async function* separated(path: string, delimiter: string): AsyncGenerator<NamedRow> {
  let number = 0;
  const columns = (names: readonly string[]): string[] => {
    const trimmed = names.map((name) => name.trim());
    const twice = trimmed.find((name, i) => trimmed.indexOf(name) !== i);
    if (twice !== undefined) throw new ConfigError(expected(`dataset ${path}`, "one column of each name", `two named "${twice}"`));
    return trimmed;
  };
  const source = createReadStream(path);
  const parser = parse({ delimiter, bom: true, columns, skip_empty_lines: true, record_delimiter: ["\r\n", "\n"] });
  source.on("error", (cause) => parser.destroy(cause)).pipe(parser);
  try {
    for await (const row of parser as AsyncIterable<JsonObject>) yield { row, where: `${path} row ${++number}`, number };
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(expected(`${path} row ${number + 1}`, "cells separated as CSV is", messageOf(cause)), { cause });
  } finally {
    source.destroy();
  }
}

async function* parquet(path: string, columns: readonly string[] | undefined): AsyncGenerator<NamedRow> {
  const [{ asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects }, { compressors }] = await Promise.all([
    import("hyparquet"),
    import("hyparquet-compressors"),
  ]);
  const opened = async <T>(body: () => Promise<T>): Promise<T> => {
    try {
      return await body();
    } catch (cause) {
      throw new ConfigError(expected(`dataset ${path}`, "a Parquet file", messageOf(cause)), { cause });
    }
  };
  const file = await opened(() => asyncBufferFromFile(path));
  const metadata = await opened(() => parquetMetadataAsync(file));
  const known = new Set(metadata.row_groups.flatMap((group) => group.columns.map(({ meta_data: data }) => data?.path_in_schema[0] ?? "")));
  const missing = columns?.find((column) => !known.has(column));
  if (missing !== undefined && metadata.row_groups.length > 0) {
    throw new ConfigError(expected(`dataset ${path}`, `a column "${missing}"`, `columns ${[...known].join(", ")}`));
  }
  const wanted = columns === undefined ? {} : { columns: [...columns] };
  let number = 0;
  for (const { num_rows: count } of metadata.row_groups) {
    const range = { rowStart: number, rowEnd: number + Number(count) };
    const rows = await opened(() => parquetReadObjects({ file, metadata, compressors, utf8: false, ...wanted, ...range }));
    for (const row of rows) {
      const where = `${path} row ${++number}`;
      const cells = Object.entries(row).map(([name, value]) => [name, plain(value, `${where} column "${name}"`)]);
      yield { row: Object.fromEntries(cells) as JsonObject, where, number };
    }
  }
}

/** A cell as JSON: integers of 64 bits that a double cannot hold become text, moments ISO text. */
function plain(value: unknown, where: string): Json {
  if (value === null || value === undefined) return null;
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map((each) => plain(each, where));
  if (typeof value === "object" && !ArrayBuffer.isView(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each, where)]));
  }
  const got = ArrayBuffer.isView(value) ? "bytes" : typeof value === "number" ? String(value) : typeof value;
  throw new ConfigError(expected(where, "text, a finite number, a list or an object", got));
}
