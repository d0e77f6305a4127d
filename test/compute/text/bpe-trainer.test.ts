import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { trainBpe } from "../../../src/compute/text/bpe-trainer.ts";
import { openTokenizer } from "../../../src/compute/text/tokenizer.ts";
import { tinyTokenizer, tinyTokenizerJson } from "../../fakes/tiny-tokenizer.ts";

interface Model {
  readonly vocab: Readonly<Record<string, number>>;
  readonly merges: readonly (readonly [string, string])[];
}
const modelOf = (texts: readonly string[], vocabSize: number, specials: readonly string[] = []): Model =>
  trainBpe(texts, { vocabSize, specials }).model as unknown as Model;

test("the most frequent pair is merged first, ties go to the smaller ids, counts follow the merges", () => {
  // low x5, lower x2, newest x6: e-s 6, s-t 6, w-e 8 (lower, newest), l-o 7, o-w 7, n-e 6, e-w 6.
  const texts = [..."low ".repeat(5).split(" "), ..."lower ".repeat(2).split(" "), ..."newest ".repeat(6).split(" ")];
  // w-e 8; then l-o 7 (o-w 7 has the larger first id); lo-w is 5, ne-w gone: e-we 6, n-e 6, s-t 6, we-s 6: smallest ids first.
  expect(modelOf(texts, 256 + 6).merges).toEqual([
    ["w", "e"],
    ["l", "o"],
    ["e", "we"],
    ["n", "ewe"],
    ["s", "t"],
    ["newe", "st"],
  ]);
});

test("special tokens come first and are never merged, digits stay single, and training stops where nothing repeats", () => {
  const { vocab, merges } = modelOf(["2024<|end|>2024<|end|>2024", "ab"], 400, ["<|end|>"]);
  expect(vocab["<|end|>"]).toBe(0);
  expect(merges).toEqual([]);
  expect(Object.keys(vocab).length).toBe(257);
});

test("two ways to the same token share one id", () => {
  const { vocab, merges } = modelOf(["abc abc abc abc abc bcd bcd bcd bcd bcd bcd xab xab xab xab xab xab xab"], 400);
  const made = merges.map((pair) => pair.join(""));
  expect(new Set(Object.values(vocab)).size).toBe(Object.keys(vocab).length);
  expect(Math.max(...Object.values(vocab))).toBe(Object.keys(vocab).length - 1);
  expect(made).toContain("ab");
});

test("training is the same every time and does not depend on the order of texts with equal counts", () => {
  const texts = ["one two three", "two three four", "five one two"];
  expect(trainBpe(texts, { vocabSize: 300, specials: [] })).toEqual(trainBpe([...texts].reverse(), { vocabSize: 300, specials: [] }));
});

test("a vocabulary without room for the bytes is refused", () => {
  expect(() => trainBpe([], { vocabSize: 200, specials: ["<a>"] })).toThrow(/^vocabSize: expected an integer of at least 257 .* got 200/);
});

test("the tokenizer.json is the stored one, with which Python gives the same ids", async () => {
  await expect(`${JSON.stringify(tinyTokenizerJson())}\n`).toMatchFileSnapshot("../../golden/text/tiny-tokenizer.json");
  const rows = JSON.parse(readFileSync(new URL("../../golden/text/tiny-ids.json", import.meta.url), "utf8")) as readonly {
    readonly text: string;
    readonly ids: readonly number[];
    readonly plain: readonly number[];
  }[];
  const tokenizer = tinyTokenizer();
  expect(rows.length).toBe(49);
  for (const { text, ids, plain } of rows) {
    expect(tokenizer.encode(text), text).toEqual(ids);
    expect(tokenizer.encodePlain(text), text).toEqual(plain);
    expect(tokenizer.decode(ids)).toBe(text);
    expect(tokenizer.decode(plain)).toBe(text);
  }
});

test("1 MB of text to 1,000 merges takes seconds", () => {
  const words = Array.from({ length: 5000 }, (_, i) => (i * 2654435761 % 2 ** 32).toString(36).replace(/[0-9]/g, "e"));
  const text = Array.from({ length: 160_000 }, (_, i) => words[(i * i + 7 * i) % words.length]!).join(" ");
  expect(text.length).toBeGreaterThan(1_000_000);
  const started = performance.now();
  const tokenizer = openTokenizer(trainBpe([text], { vocabSize: 1256, specials: [] }), {});
  expect(tokenizer.size).toBe(1256);
  expect(performance.now() - started).toBeLessThan(20_000);
});
