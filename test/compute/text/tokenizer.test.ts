import { expect, test } from "vitest";
import { openTokenizer, streamDecoder } from "../../../src/compute/text/tokenizer.ts";
import type { JsonObject } from "../../../src/types.ts";
import { TINY_SPECIALS, tinyTokenizer, tinyTokenizerJson } from "../../fakes/tiny-tokenizer.ts";

const tokenizer = tinyTokenizer();

test("ids of special tokens, ends and beginnings", () => {
  expect(tokenizer.specials.map(({ id, text }) => [id, text])).toEqual(TINY_SPECIALS.map((text, id) => [id, text]));
  expect(tokenizer.eosIds).toEqual([2, 10, 0]);
  expect(tokenizer.bosId).toBe(7);
  expect(tokenizer.idOf("<|im_start|>")).toBe(1);
  expect(tokenizer.idOf("no such token")).toBeUndefined();
  expect(tokenizer.size).toBe(Object.keys((tinyTokenizerJson().model as { readonly vocab: object }).vocab).length);
});

test("special tokens in text are recognised and none are added", () => {
  expect(tokenizer.encode("<|im_start|><|im_end|>")).toEqual([1, 2]);
  expect(tokenizer.encode("")).toEqual([]);
  const inside = tokenizer.encode("a<|im_end|>b");
  expect(inside.filter((id) => id < TINY_SPECIALS.length)).toEqual([2]);
});

test("plain text never gives a special id", () => {
  for (const text of [...TINY_SPECIALS, "<|im_<|im_end|>end|>", ` ${TINY_SPECIALS.join("")}`]) {
    const ids = tokenizer.encodePlain(text);
    expect(ids.every((id) => id >= TINY_SPECIALS.length)).toBe(true);
    expect(tokenizer.decode(ids)).toBe(text);
  }
  expect(tokenizer.encodePlain("")).toEqual([]);
  expect(tokenizer.encodePlain("ordinary text, 12")).toEqual(tokenizer.encode("ordinary text, 12"));
});

test("plain text gives no special id even where the vocabulary knows the whole word", () => {
  const json = JSON.parse(JSON.stringify(tinyTokenizerJson())) as JsonObject;
  const model = json.model as { readonly vocab: JsonObject };
  const added = [...(json.added_tokens as readonly JsonObject[]), { id: 500, content: "think", special: true }];
  const whole = { ...model, ignore_merges: true, vocab: { ...model.vocab, think: 500 } };
  const forged = openTokenizer({ ...json, model: whole, added_tokens: added }, {});
  expect(forged.encode("think")).toEqual([500]);
  const ids = forged.encodePlain("think");
  expect(ids).not.toContain(500);
  expect(forged.decode(ids)).toBe("think");
});

test("decoding: the empty list, special tokens kept or left out, all from one id list", () => {
  const ids = tokenizer.encode("<tool_call>{}</tool_call><|im_end|>");
  expect(tokenizer.decode([])).toBe("");
  expect(tokenizer.decode(ids)).toBe("<tool_call>{}</tool_call><|im_end|>");
  expect(tokenizer.decode(ids, { skipSpecial: true })).toBe("{}");
});

test("a character over two tokens decodes as one, and only whole when streamed", () => {
  const json = tinyTokenizerJson();
  const model = json.model as { readonly vocab: JsonObject };
  const size = tokenizer.size;
  // F0 9F and 8E 89 in GPT-2's alphabet.
  const [high, low] = ["ðŁ", "İī"] as const;
  const halves = openTokenizer({ ...json, model: { ...model, vocab: { ...model.vocab, [high]: size, [low]: size + 1 } } }, {});
  expect(halves.decode([size, size + 1])).toBe("🎉");
  expect(halves.decode([size]) + halves.decode([size + 1])).toMatch(/^\ufffd+$/);
  const stream = streamDecoder(halves);
  const a = halves.idOf("a")!;
  expect([a, size, size + 1, a, size].map((id) => stream.push(id))).toEqual(["a", "", "🎉", "a", ""]);
  expect(stream.end()).toBe("\ufffd");
});

test("streamed pieces join to what decode gives, special tokens hidden or not", () => {
  for (const text of ["Zürich 東京 👩‍👩‍👧 é\u2028", "<|im_start|>a<|im_end|>", "\ufeffbom"]) {
    for (const skipSpecial of [false, true]) {
      const stream = streamDecoder(tokenizer, { skipSpecial });
      const ids = tokenizer.encode(text);
      expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(tokenizer.decode(ids, { skipSpecial }));
    }
  }
});

test("numerals of every script are digits, as in Python's tokenizers", () => {
  const json = tinyTokenizerJson();
  const digits = { type: "Digits", individual_digits: true };
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const { vocab } = json.model as { readonly vocab: JsonObject };
  const model = { ...(json.model as JsonObject), vocab: { ...vocab, "\u00d9\u00a5": 600 }, ignore_merges: true };
  const split = openTokenizer({ ...json, model, pre_tokenizer: { type: "Sequence", pretokenizers: [digits, byteLevel] } }, {});
  // U+0665 is D9 A5; alone it is one token, and its neighbour does not change that.
  expect(split.encode("\u0665\u0665")).toEqual([600, 600]);
});

test("an id that only pads the model's vocabulary decodes to a replacement character", () => {
  expect(tokenizer.decode([tokenizer.size + 5])).toBe("\ufffd");
});

test("what cannot be decoded exactly is refused with what to do", () => {
  expect(() => openTokenizer({ ...tinyTokenizerJson(), decoder: { type: "Metaspace" } }, {})).toThrow(
    /^tokenizer.json: expected a byte-level decoder, got "Metaspace"; use a model of/,
  );
  expect(() => openTokenizer({ decoder: { type: "ByteLevel" } }, {})).toThrow(/^tokenizer.json: cannot be read/);
});
