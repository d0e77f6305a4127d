import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { searchTool, type SearchToolOptions } from "../../../src/env/tools/search.ts";
import type { ToolSet } from "../../../src/env/tools/tool-set.ts";
import { runToolCalls } from "../../../src/loop/rollout/tools.ts";
import type { JsonObject, Task } from "../../../src/types.ts";
import { hostileInput } from "../../conformance/verifier.ts";

const task: Task = { id: "t", prompt: [], data: {} };
const call = async ({ tools }: ToolSet, name: string, args: JsonObject) => {
  const scope = { task, state: new Map<string, unknown>(), signal: new AbortController().signal, maxResultChars: 100_000 };
  const { records } = await runToolCalls(tools, [{ id: "1", name, arguments: args }], scope);
  return [records[0]!.outcome, records[0]!.resultText] as const;
};
const found = async (set: ToolSet, query: string): Promise<string[]> =>
  [...(await call(set, "search", { query }))[1].matchAll(/^id: (\S+)/gm)].map((match) => match[1]!);

let folder: string;
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "flywheel-search-"));
  mkdirSync(join(folder, "docs", "deep"), { recursive: true });
  const put = (name: string, text: string): void => writeFileSync(join(folder, "docs", name), text);
  put("river.md", "# The river\n\nThe river rose by two metres in the night. Nobody was hurt; the bridge held.\n");
  put("bridge.md", "# Bridge\n\nThe bridge was built in 1901 of iron.\n");
  put("deep/cafe.txt", `Crème brûlée costs 7 euros at the café by the river. ${"Long. ".repeat(100)}🎉`);
  put("ignored.json", "river river river");
  writeFileSync(
    join(folder, "rows.jsonl"),
    ['{"key": "a1", "name": "Ink", "body": "blue ink, shelf 4"}', "", '{"name": "Paper", "body": "white paper, shelf 9"}'].join("\n"),
  );
});
const open = (more: Partial<SearchToolOptions> = {}) => searchTool({ folder: join(folder, "docs"), ...more });

test("a folder: the best first, a title counts twice, words in any form, accents or case", async () => {
  await using set = await open();
  expect(set.tools.map(({ spec, readOnly }) => [spec.name, readOnly])).toEqual([["search", true], ["read", true]]);
  expect(await found(set, "bridge")).toEqual(["bridge.md", "river.md"]);
  expect(await found(set, "who built bridges?")).toEqual(["bridge.md", "river.md"]);
  expect(await found(set, "CREME")).toEqual(["deep/cafe.txt"]);
  expect((await call(set, "search", { query: "metres" }))[1]).toMatch(/^id: river\.md \(The river\)\n.*rose by two metres in the night/);
  expect((await call(set, "search", { query: "zebra" }))[1]).toBe("[no document has any of these words]");
  await using one = await open({ limit: 1 });
  expect(await found(one, "bridge")).toEqual(["bridge.md"]);
});

test("nothing of a query is read as the search's own language", async () => {
  await using set = await open();
  const odd = ['a" AND (', "river*", "NEAR(river bridge)", "title : river", "NOT river", '"', "^river", "{title}: river", "-", "a\u0000"];
  for (const query of odd)
    expect([query, (await call(set, "search", { query }))[0]]).toEqual([query, "ok"]);
  expect(await found(set, "NOT river")).toEqual(["river.md", "deep/cafe.txt"]);
  for (let i = 0; i < 500; i++) {
    const query = hostileInput(i).slice(0, 1000) || "x";
    expect([i, (await call(set, "search", { query }))[0]]).toEqual([i, "ok"]);
  }
});

test("read: whole, in parts with no half character, and what does not exist", async () => {
  await using set = await open({ readChars: 40 });
  expect((await call(set, "read", { id: "bridge.md" }))[1]).toBe(
    '# Bridge\n\nThe bridge was built in 1901 o\n[characters 0 to 40 of 48; go on with "from": 40]',
  );
  expect((await call(set, "read", { id: "bridge.md", from: 40 }))[1]).toBe("f iron.\n\n[characters 40 to 48 of 48]");
  const text = (await call(await open(), "read", { id: "deep/cafe.txt" }))[1];
  expect(text).toContain("🎉");
  await using cut = await open({ readChars: text.length - 1 });
  expect((await call(cut, "read", { id: "deep/cafe.txt" }))[1]).not.toMatch(/\p{Surrogate}/u);
  for (const id of ["../rows.jsonl", "ignored.json", "/etc/passwd", ""])
    expect(await call(set, "read", { id })).toEqual(["error", `error: no document ${JSON.stringify(id)}; search shows the ids`]);
  const beyond = 'error: "from" must be below 48, the length of the document';
  expect(await call(set, "read", { id: "bridge.md", from: 48 })).toEqual(["error", beyond]);
});

test("rows of a JSONL file, with fields and ids", async () => {
  const jsonl = join(folder, "rows.jsonl");
  await using set = await searchTool({ jsonl, fields: { id: "key", title: "name", text: "body" }, names: { search: "find" } });
  const both = "id: 3 (Paper)\nwhite paper, shelf 9\n\nid: a1 (Ink)\nblue ink, shelf 4";
  expect((await call(set, "find", { query: "shelf paper" }))[1]).toBe(both);
  await expect(searchTool({ jsonl })).rejects.toThrow(`${jsonl} line 1: text: expected a text, got nothing`);
  await expect(searchTool({ jsonl: join(folder, "none") })).rejects.toThrow("search: jsonl: expected a file that can be read");
  const twice = join(folder, "twice.jsonl");
  writeFileSync(twice, '{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n');
  await expect(searchTool({ jsonl: twice })).rejects.toThrow('ids: expected each once, got "1" twice');
  writeFileSync(twice, "not json\n");
  await expect(searchTool({ jsonl: twice })).rejects.toThrow("line 1: expected a JSON object, got not json");
  await expect(open({ limit: 0 })).rejects.toThrow("search: limit: expected an integer of at least 1, got 0");
  await expect(open({ endings: [".none"] })).rejects.toThrow("expected at least one document, got none");
});

test("the cache: built once for the same content, again for another, whatever its state", async () => {
  const cache = join(folder, "cache");
  const files = (): string[] => readdirSync(cache).filter((name) => name.endsWith(".sqlite"));
  const opened = async (): Promise<void> => {
    await using set = await open({ cache });
    expect(await found(set, "bridge")).toEqual(["bridge.md", "river.md"]);
    expect((await call(set, "read", { id: "bridge.md" }))[1]).toContain("1901");
  };
  await opened();
  const [first] = files();
  const before = statSync(join(cache, first!)).mtimeMs;
  await Promise.all([opened(), opened()]);
  expect([files(), statSync(join(cache, first!)).mtimeMs]).toEqual([[first], before]);
  writeFileSync(join(folder, "docs", "new.md"), "something new");
  await opened();
  expect(files().length).toBe(2);
  rmSync(join(folder, "docs", "new.md"));
  writeFileSync(join(cache, first!), "damaged");
  await expect(opened()).rejects.toThrow(/the index .* cannot be used: .*; delete it, or name another cache/);
});
