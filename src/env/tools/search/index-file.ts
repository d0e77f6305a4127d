/** The index: a table of SQLite's full-text search, in memory or in a file that is named by what it holds. */
import { createHash } from "node:crypto";
import { mkdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ToolError } from "../../../errors.ts";
import type { SearchDocument } from "./documents.ts";

interface Found {
  readonly id: string;
  readonly title: string;
  readonly snippet: string;
}

export interface SearchIndex {
  /** Documents with a word of the query, the best by BM25 first; a word of the title counts twice. */
  find(query: string, limit: number): readonly Found[];
  read(id: string): string | null;
  close(): void;
}

/** Words of a query that count; the rest is left out. */
const MAX_WORDS = 32;
const SNIPPET_WORDS = 24;
/** A part of the name of a cached index: another layout is another file. */
const LAYOUT = "1";
const TABLE = "CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, title, body, tokenize = 'porter unicode61 remove_diacritics 2')";
const FIND = `SELECT id, title, snippet(docs, -1, '', '', ' … ', ${SNIPPET_WORDS}) AS snippet FROM docs
  WHERE docs MATCH ? ORDER BY bm25(docs, 0, 2, 1), rowid LIMIT ?`;

/** Builds the index, or opens the one in `cache` that was built of the same documents. */
export async function openIndex(documents: readonly SearchDocument[], cache: string | undefined): Promise<SearchIndex> {
  const { default: Database } = await import("libsql");
  type Opened = InstanceType<typeof Database>;
  const built = (path: string): Opened => {
    const database = new Database(path);
    database.exec(TABLE);
    const insert = database.prepare("INSERT INTO docs (id, title, body) VALUES (?, ?, ?)");
    database.exec("BEGIN");
    for (const { id, title, text } of documents) insert.run(id, title, text);
    database.exec("COMMIT");
    return database;
  };
  if (cache === undefined) return indexOf(built(":memory:"), new Map(documents.map(({ id }, row) => [id, row + 1])));
  const path = join(cache, `search-${contentHash(documents)}.sqlite`);
  try {
    await mkdir(cache, { recursive: true });
    if ((await stat(path).catch(() => null)) === null) {
      const partial = `${path}.${process.pid}`;
      await rm(partial, { force: true });
      built(partial).close();
      await rename(partial, path);
    }
    return indexOf(new Database(path, { readonly: true }), new Map(documents.map(({ id }, row) => [id, row + 1])));
  } catch (cause) {
    throw new ToolError(`search: the index ${path} cannot be used: ${messageOf(cause)}; delete it, or name another cache`, { cause });
  }
}

interface Database {
  prepare(sql: string): { all(...values: readonly unknown[]): unknown[] };
  close(): void;
}

function indexOf(database: Database, rows: ReadonlyMap<string, number>): SearchIndex {
  const found = database.prepare(FIND);
  const body = database.prepare("SELECT body FROM docs WHERE rowid = ?");
  return {
    find(query, limit) {
      const match = matchOf(query);
      return match === "" ? [] : (found.all(match, limit) as Found[]).map(({ id, title, snippet }) => ({ id, title, snippet }));
    },
    read(id) {
      const row = rows.get(id);
      return row === undefined ? null : (body.all(row) as { readonly body: string }[])[0]!.body;
    },
    close: () => database.close(),
  };
}

/** Each word as a quoted text, any of which may match: nothing of the query is read as the language of the search. */
function matchOf(query: string): string {
  const words = new Set(query.match(/[\p{L}\p{N}\p{M}]+/gu) ?? []);
  return [...words].slice(0, MAX_WORDS).map((word) => `"${word}"`).join(" OR ");
}

function contentHash(documents: readonly SearchDocument[]): string {
  const hash = createHash("sha256").update(LAYOUT);
  for (const { id, title, text } of documents) for (const part of [id, title, text]) hash.update(`${part.length} `).update(part);
  return hash.digest("hex").slice(0, 32);
}
