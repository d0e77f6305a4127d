import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConfigError } from "../../../src/errors.ts";
import { openDataset, type OpenDatasetOptions } from "../../../src/loop/prompt/dataset/open.ts";
import { rowStore } from "../../../src/loop/prompt/dataset/row-store.ts";
import { tableRows } from "../../../src/loop/prompt/dataset/rows.ts";
import { template } from "../../../src/loop/prompt/dataset/template.ts";
import type { JsonObject, TaskSource } from "../../../src/types.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";

const golden = "test/golden/parquet";
const write = async (name: string, text: string): Promise<string> => {
  const path = join(await temporaryFolder(), name);
  writeFileSync(path, text);
  return path;
};
const all = (source: TaskSource) => Array.from({ length: source.size }, (_, i) => source.at(i));
const rowsOf = async (path: string, columns: readonly string[] = []): Promise<JsonObject[]> => {
  const found: JsonObject[] = [];
  for await (const { row } of tableRows(path, columns)) found.push(row);
  return found;
};
const refusal = (path: string, options?: OpenDatasetOptions): Promise<string> =>
  openDataset(path, options).then(
    () => "opened",
    (cause: unknown) => {
      expect(cause).toBeInstanceOf(ConfigError);
      return (cause as Error).message.replace(path, "FILE");
    },
  );

test("a template takes columns, parts of them, and braces; one column alone keeps its type", () => {
  const row = { a: "x", n: 3, o: { t: ["p", "q"] } };
  const read = template("{a}: {n} {{not}} {o.t.1} {o}", "here");
  expect(read.columns).toEqual(["a", "n", "o"]);
  expect(read.text(row, "row 1")).toBe('x: 3 {not} q {"t":["p","q"]}');
  expect(template("{n}", "here").value(row, "row 1")).toBe(3);
  expect(template("n={n}", "here").value(row, "row 1")).toBe("n=3");
  expect(() => template("{a", "dataset: prompt")).toThrow('dataset: prompt: expected columns in braces, got "{a"');
  expect(() => template("{}", "here")).toThrow("expected columns in braces");
  expect(() => template("{b}", "here").text(row, "f row 1")).toThrow('f row 1 column "b": expected to be there, got columns a, n, o');
  expect(() => template("{a}", "here").text({ a: null }, "f row 2")).toThrow('f row 2 column "a": expected a value, got null');
  expect(() => template("{toString}", "here").text({}, "f row 2")).toThrow("expected to be there");
});

test("rows that are too many for memory are in a file that has no name, and come back whole", () => {
  const store = rowStore(1000);
  const text = (i: number): string => `${i} ü 東 ${"x".repeat(i % 97)}`;
  const before = readdirSync(tmpdir());
  for (let i = 0; i < 5000; i++) store.add(text(i));
  expect(store.size).toBe(5000);
  for (const i of [0, 1, 12, 999, 4999, 3, 1023, 1024]) expect(store.at(i)).toBe(text(i));
  store.add("one more");
  expect([store.at(5000), store.at(4998)]).toEqual(["one more", text(4998)]);
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith("flywheel-rows-") && !before.includes(name))).toEqual([]);
});

test("JSONL: separators of Unicode inside of a text end no line", async () => {
  const path = await write("rows.jsonl", `{"question": "a\u2028b", "answer": 1}\r\n\n{"question": "c", "answer": [2, 3], "id": 7}`);
  const { train, test, files } = await openDataset(path, { system: "Be short." });
  expect(all(train)).toEqual([
    {
      id: "rows.jsonl:1",
      prompt: [{ role: "system", content: "Be short." }, { role: "user", content: "a\u2028b" }],
      data: { gold: 1 },
    },
    { id: "rows.jsonl:3", prompt: [{ role: "system", content: "Be short." }, { role: "user", content: "c" }], data: { gold: [2, 3] } },
  ]);
  expect([test, files]).toEqual([null, [path]]);
});

test("CSV and TSV: quoted cells hold commas, quotes and ends of line", async () => {
  const csv = await write("rows.csv", '\ufeffquestion , answer\r\n"1, ""2""\nand 3",4\r\n\r\nq,5\n');
  expect(await rowsOf(csv)).toEqual([{ question: '1, "2"\nand 3', answer: "4" }, { question: "q", answer: "5" }]);
  const open = await write("open.csv", 'a\n"x');
  await expect(rowsOf(open)).rejects.toThrow("open.csv row 1: expected cells separated as CSV is, got Quote Not Closed");
  await expect(rowsOf(await write("twice.csv", "a,a\n1,2\n"))).rejects.toThrow('expected one column of each name, got two named "a"');
  const tsv = await write("rows.tsv", "question\tanswer\nx,y\tz\n");
  expect(await rowsOf(tsv)).toEqual([{ question: "x,y", answer: "z" }]);
});

test.each(["none", "snappy", "gzip", "zstd", "brotli"])("Parquet, %s: the values that pyarrow wrote", async (name) => {
  const written = JSON.parse(readFileSync(join(golden, "rows.json"), "utf8")) as JsonObject[];
  const columns = Object.keys(written[0]!);
  // 2^53 + 1 is no double, so it is text; pyarrow's moments have no zone and are UTC.
  const bigOf = (i: number): string => (2n ** 53n + 2n * BigInt(i) + 1n).toString();
  const expected = written.map((row, i) => ({ ...row, big: bigOf(i), day: `${row["day"] as string}.000Z` }));
  expect(await rowsOf(join(golden, `${name}.parquet`), columns)).toEqual(expected);
});

test("Parquet: pages of the second version; bytes are refused by row and column", async () => {
  expect((await rowsOf(join(golden, "pages.parquet"), ["answer", "maybe"]))[2]).toEqual({ answer: 4, maybe: "m2" });
  await expect(rowsOf(join(golden, "none.parquet"), ["raw"])).rejects.toThrow(
    'none.parquet row 1 column "raw": expected text, a finite number, a list or an object, got bytes',
  );
  await expect(rowsOf(join(golden, "none.parquet"), ["solution"])).rejects.toThrow(
    'expected a column "solution", got columns question, answer',
  );
  const broken = await write("x.parquet", "PAR1 no PAR1");
  await expect(rowsOf(broken, ["question"])).rejects.toThrow(/x.parquet: expected a Parquet file, got/);
});

test("a folder: splits by the card, else by the names of the files", async () => {
  const { train, test, files } = await openDataset(join(golden, "folder"), { prompt: "Q: {question}" });
  expect([train.size, test!.size, files.length]).toEqual([6, 2, 3]);
  expect(train.at(4)).toEqual({
    id: join("data", "train-00001-of-00002.parquet:2"),
    prompt: [{ role: "user", content: "Q: What is 4 + 4? ü 東" }],
    data: { gold: 8 },
  });
  const folder = await temporaryFolder();
  const row = (n: number): string => `{"question": "q${n}", "answer": ${n}}\n`;
  const made = { "en/training.jsonl": row(1), "en/dev.jsonl": row(2), "de/train.csv": "question,answer\nz,3\n" };
  for (const [name, text] of Object.entries(made)) {
    mkdirSync(join(folder, name.split("/")[0]!), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const english = await openDataset(folder, { subset: "en" });
  expect([all(english.train).map(({ data }) => data), all(english.test!).map(({ data }) => data)]).toEqual([[{ gold: 1 }], [{ gold: 2 }]]);
  expect((await openDataset(folder)).train.size).toBe(2);
  expect(await refusal(folder, { subset: "fr" })).toBe(
    'dataset FILE: subset: expected a configuration or a folder "fr", got no such folder and no configuration',
  );
  expect(await refusal(folder, { train: "unsupervised" })).toBe(
    'dataset FILE: expected a split "unsupervised", got splits train, validation',
  );
  const card = ["---", "configs:", "- config_name: a", "  data_files: en/*.jsonl", "- config_name: b", "  data_dir: de", "---", ""];
  writeFileSync(join(folder, "README.md"), card.join("\n"));
  expect(await refusal(folder)).toBe("dataset FILE: subset: expected one of a, b, got none; the card has several configurations");
  expect((await openDataset(folder, { subset: "a" })).train.size).toBe(2);
  expect((await openDataset(folder, { subset: "b" })).train.size).toBe(1);
});

test("conversations: the policy speaks where the assistant did; the gold of GSM8K stands behind its marks", async () => {
  const { train } = await openDataset(join(golden, "none.parquet"), { messages: "messages", gold: "{answer}", keep: ["right"] });
  expect(train.at(1)).toEqual({
    id: "none.parquet:2", prompt: [{ role: "user", content: "Double 1." }], data: { gold: 2, right: false },
  });
  const path = await write("gsm.jsonl", '{"question": "q", "answer": "2+2=<<2+2=4>>4\\n#### 4"}\n{"question": "r", "answer": "none"}\n');
  expect(await refusal(path, { goldAfter: "####" })).toBe('FILE line 2: gold: expected a text with "####", got "none"');
});

test("a share for the test split goes by the prompt, so that no prompt is in both and more rows move none", async () => {
  const line = (_: unknown, i: number): string => `{"question": "q${i % 150}", "answer": ${i}}\n`;
  const lines = (count: number): string => Array.from({ length: count }, line).join("");
  const small = await openDataset(await write("a.jsonl", lines(200)), { testShare: 0.3 });
  const large = await openDataset(await write("a.jsonl", lines(300)), { testShare: 0.3 });
  const prompts = (source: TaskSource): Set<string> => new Set(all(source).map(({ prompt }) => prompt[0]!.content));
  expect([...prompts(small.test!)].filter((prompt) => prompts(small.train).has(prompt))).toEqual([]);
  expect([...prompts(small.test!)].filter((prompt) => !prompts(large.test!).has(prompt))).toEqual([]);
  // 150 prompts, share 0.3: 45 expected, 3 deviations are 17.
  expect(Math.abs(prompts(small.test!).size - 45)).toBeLessThan(17);
});

test.each<[string, OpenDatasetOptions, string]>([
  ['{"question": "q", "answer": 1}\n{"question": ', {}, "FILE line 2: expected a JSON object, got "],
  ["[1]\n", {}, "FILE line 1: expected a JSON object, got [1]"],
  ['{"question": "", "answer": 1}\n', {}, 'FILE line 1 column "question": expected a value, got ""'],
  ['{"text": "q", "answer": 1}\n', {}, 'FILE line 1 column "question": expected to be there, got columns text, answer'],
  [
    '{"question": "q", "answer": 1, "k": "a"}\n{"question": "r", "answer": 1, "k": "a"}\n',
    { id: "k" },
    'FILE line 2: id: expected one that no earlier row has, got "a"',
  ],
  ["", {}, "dataset FILE, train split: expected at least one row, got none"],
  ['{"question": "q", "answer": 1}\n', { testShare: 2 }, "dataset: testShare: expected a number from 0 to below 1, got 2"],
  ['{"question": "q", "answer": 1}\n', { subset: "en" }, "dataset: subset: expected nothing with a single file, got en"],
  ['{"m": [{"role": "user"}]}\n', { messages: "m" }, 'FILE line 1 column "m": expected a list of {role, content}, got [{"role":"user"}]'],
])("what cannot be read is named: %j %j", async (text, options, message) => {
  expect(await refusal(await write("rows.jsonl", text), options)).toContain(message);
});

test("memory does not grow with the file: 200,000 rows of 400 bytes", { timeout: 60_000 }, async () => {
  const path = join(await temporaryFolder(), "large.jsonl");
  const line = (i: number): string => `${JSON.stringify({ question: `q${i} ${"x".repeat(360)}`, answer: i })}\n`;
  for (let from = 0; from < 200_000; from += 10_000) {
    writeFileSync(path, Array.from({ length: 10_000 }, (_, i) => line(from + i)).join(""), { flag: "a" });
  }
  const before = process.memoryUsage().rss;
  const { train } = await openDataset(path);
  const grown = (process.memoryUsage().rss - before) / 2 ** 20;
  expect(train.at(199_999)).toMatchObject({ data: { gold: 199_999 } });
  // The file has 79 MB; a list of its rows would take three times that.
  expect(grown).toBeLessThan(150);
});
