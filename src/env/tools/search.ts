/** Full-text search over documents of one's own: a tool that finds, and one that opens what was found. */
import { z } from "zod";
import { expected, ToolError } from "../../errors.ts";
import { defineTool } from "../../loop/rollout/tools.ts";
import { readDocuments, type DocumentSource } from "./search/documents.ts";
import { openIndex, type SearchIndex } from "./search/index-file.ts";
import type { ToolSet } from "./tool-set.ts";

export type SearchToolOptions = DocumentSource & {
  /** Documents that a search shows; default 5. */
  readonly limit?: number;
  /** Characters of a document that one reading shows; default 3,000. Keep `maxResultChars` of the environment above it. */
  readonly readChars?: number;
  /** A folder where the index is kept, by its content. Default: in memory. */
  readonly cache?: string;
  /** Names of the two tools; default "search" and "read". */
  readonly names?: { readonly search?: string; readonly read?: string };
};

/** Reads the documents and builds the index once. Throws `ToolError` for a file or a row that cannot be used. */
export async function searchTool({ limit = 5, readChars = 3000, cache, names = {}, ...source }: SearchToolOptions): Promise<ToolSet> {
  for (const [key, value] of Object.entries({ limit, readChars })) {
    if (!Number.isInteger(value) || value < 1) throw new ToolError(expected(`search: ${key}`, "an integer of at least 1", String(value)));
  }
  const index = await openIndex(await readDocuments(source), cache);
  const search = defineTool({
    name: names.search ?? "search",
    description: `Finds documents by words; shows the ${limit} best with their ids.`,
    parameters: z.strictObject({ query: z.string().min(1).max(1000).describe("words to look for") }),
    run: ({ query }) => results(index, query, limit),
    readOnly: true,
  });
  const read = defineTool({
    name: names.read ?? "read",
    description: `Shows a document, ${readChars} characters at a time.`,
    parameters: z.strictObject({
      id: z.string().describe("as a search shows it"),
      from: z.int().min(0).optional().describe("first character; 0 if left out"),
    }),
    run: ({ id, from = 0 }) => part(index, { id, from, readChars }),
    readOnly: true,
  });
  return { tools: [search, read], [Symbol.asyncDispose]: async () => index.close() };
}

function results(index: SearchIndex, query: string, limit: number): string {
  const found = index.find(query, limit);
  if (found.length === 0) return "[no document has any of these words]";
  const head = ({ id, title }: (typeof found)[number]): string => (title === "" || title === id ? `id: ${id}` : `id: ${id} (${title})`);
  return found.map((one) => `${head(one)}\n${one.snippet.replace(/\s+/g, " ").trim()}`).join("\n\n");
}

interface Reading {
  readonly id: string;
  readonly from: number;
  readonly readChars: number;
}

function part(index: SearchIndex, { id, from, readChars }: Reading): string {
  const text = index.read(id);
  if (text === null) throw new ToolError(`no document ${JSON.stringify(id.slice(0, 100))}; search shows the ids`);
  if (from >= text.length && text.length > 0) throw new ToolError(`"from" must be below ${text.length}, the length of the document`);
  let end = Math.min(text.length, from + readChars);
  // No half of a character at the end.
  if (end < text.length && end > from + 1 && text.codePointAt(end - 1)! > 0xffff) end--;
  const whole = from === 0 && end === text.length;
  const more = end < text.length ? `; go on with "from": ${end}` : "";
  return text.slice(from, end) + (whole ? "" : `\n[characters ${from} to ${end} of ${text.length}${more}]`) || "[empty document]";
}
