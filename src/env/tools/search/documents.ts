/** The documents of a search: the text files of a folder, or the rows of a JSONL file. */
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { expected, ToolError } from "../../../errors.ts";
import { parseJsonStrict } from "../../../json.ts";
import type { Json } from "../../../types.ts";

export interface SearchDocument {
  readonly id: string;
  readonly title: string;
  readonly text: string;
}

export type DocumentSource =
  | {
      readonly folder: string;
      /** Endings of the files that are read, in all folders below; default .md and .txt. */
      readonly endings?: readonly string[];
    }
  | {
      readonly jsonl: string;
      /** Which fields of a row are its id, title and text; default those names. A row without an id has its line's number. */
      readonly fields?: { readonly id?: string; readonly title?: string; readonly text?: string };
    };

/** All documents, in an order that does not depend on the machine. Throws `ToolError` with file and line. */
export async function readDocuments(source: DocumentSource): Promise<readonly SearchDocument[]> {
  const documents = "folder" in source ? await fromFolder(source) : await fromRows(source);
  const where = `search: ${"folder" in source ? source.folder : source.jsonl}`;
  if (documents.length === 0) throw new ToolError(expected(where, "at least one document", "none"));
  const seen = new Set<string>();
  for (const { id } of documents) {
    if (seen.has(id)) throw new ToolError(expected(`${where}: ids`, "each once", `${JSON.stringify(id)} twice`));
    seen.add(id);
  }
  return documents;
}

async function fromFolder({ folder, endings = [".md", ".txt"] }: Extract<DocumentSource, { folder: string }>): Promise<SearchDocument[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => {
    throw new ToolError(expected("search: folder", "a folder that can be read", folder));
  });
  const paths = entries
    .filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)))
    .map((entry) => join(entry.path, entry.name))
    .sort();
  return Promise.all(
    paths.map(async (path) => {
      const text = await readFile(path, "utf8");
      const heading = /^#\s+(.+)$/m.exec(text.slice(0, 2000))?.[1];
      const id = relative(folder, path).split(sep).join("/");
      return { id, title: heading?.trim() ?? id, text };
    }),
  );
}

async function fromRows({ jsonl, fields = {} }: Extract<DocumentSource, { jsonl: string }>): Promise<SearchDocument[]> {
  const { id = "id", title = "title", text = "text" } = fields;
  const content = await readFile(jsonl, "utf8").catch(() => {
    throw new ToolError(expected("search: jsonl", "a file that can be read", jsonl));
  });
  return content.split("\n").flatMap((line, index): SearchDocument[] => {
    if (line.trim() === "") return [];
    const where = `${jsonl} line ${index + 1}`;
    const row = rowOf(line, where);
    const body = row[text];
    if (typeof body !== "string") throw new ToolError(expected(`${where}: ${text}`, "a text", JSON.stringify(body) ?? "nothing"));
    const [key, head] = [row[id], row[title]];
    const named = typeof key === "string" || typeof key === "number" ? String(key) : String(index + 1);
    return [{ id: named, title: typeof head === "string" ? head : "", text: body }];
  });
}

function rowOf(line: string, where: string): Readonly<Record<string, Json>> {
  let value: Json;
  try {
    value = parseJsonStrict(line);
  } catch {
    throw new ToolError(expected(where, "a JSON object", line.slice(0, 60)));
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Readonly<Record<string, Json>>;
  throw new ToolError(expected(where, "a JSON object", line.slice(0, 60)));
}
