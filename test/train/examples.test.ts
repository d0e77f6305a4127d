/** Files of examples: what each form becomes, row by row, and what is refused by its line. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { dpo } from "../../src/algo/dpo.ts";
import { kto } from "../../src/algo/kto.ts";
import { processRewardModel } from "../../src/algo/process-reward-model.ts";
import { rewardModel } from "../../src/algo/reward-model.ts";
import { sft } from "../../src/algo/sft.ts";
import { trainBpe } from "../../src/compute/text/bpe-trainer.ts";
import { openChatTemplate } from "../../src/compute/text/chat-template.ts";
import { openRenderer, type ChatRenderer } from "../../src/compute/text/renderer.ts";
import { openTokenizer } from "../../src/compute/text/tokenizer.ts";
import { mismatchedRows } from "../../src/loop/batch/mismatch.ts";
import { batchOf, readExamples } from "../../src/train/examples.ts";
import type { OfflineAlgorithm, TrainRow } from "../../src/types.ts";
import { goldenFolder } from "../fakes/golden.ts";
import { temporaryFolder } from "../fakes/model-folders.ts";
import { writeRows } from "../fakes/preferences.ts";
import { TINY_SPECIALS, tinyTokenizer } from "../fakes/tiny-tokenizer.ts";

const chatml = readFileSync(join(goldenFolder, "chat/chatml.jinja"), "utf8");
const specials = { eos_token: "<|im_end|>", bos_token: "<|begin_of_text|>" };
const rendererFor = (template: string, tokenizer = tinyTokenizer()): ChatRenderer =>
  openRenderer({ tokenizer, template: openChatTemplate({ chat_template: template, ...specials }, "test") });
const renderer = rendererFor(chatml);
const text = (ids: Iterable<number>, from = renderer): string => from.tokenizer.decode([...ids]);
const trainedText = ({ ids, trained }: Pick<TrainRow, "ids" | "trained">): string => text([...trained].map((t) => ids[t]!));

type Options = { readonly contextLength?: number; readonly renderer?: ChatRenderer };
async function read(rows: readonly object[], algorithm: OfflineAlgorithm, options: Options = {}) {
  return readExamples(writeRows(await temporaryFolder(), rows), algorithm, { renderer, contextLength: 4096, ...options });
}

const batchFrom = async (rows: readonly object[], algorithm: OfflineAlgorithm) => batchOf(await read(rows, algorithm), algorithm);

test("a pair: the prompt's ids begin both rows, the answer and its end of turn are trained, weights sum to 1", async () => {
  const second = { prompt: "What?", chosen: "42", rejected: "the quick brown fox" };
  const rows = [{ prompt: "hi", chosen: "the dog", rejected: "fox", margin: 2 }, second];
  const { units, scalars } = await batchFrom(rows, dpo());
  expect(units.map((unit) => unit.rows.map(trainedText))).toEqual([
    ["the dog<|im_end|>", "fox<|im_end|>"],
    ["42<|im_end|>", "the quick brown fox<|im_end|>"],
  ]);
  const prompt = renderer.start([{ role: "user", content: "hi" }]).ids;
  for (const { ids, trained, fields } of units[0]!.rows) {
    expect([...ids.subarray(0, trained[0])]).toEqual(prompt);
    expect(trained.at(-1)).toBe(ids.length - 1);
    expect(fields["inverseLength"]![0]).toBeCloseTo(1 / trained.length, 6);
    expect([...fields["margin"]!].every((margin) => margin === 2)).toBe(true);
  }
  expect(units[0]!.rows.map(({ fields }) => fields["sign"]![0])).toEqual([1, -1]);
  const all = units.flatMap((unit) => unit.rows);
  const sum = (rows_: readonly TrainRow[]): number => rows_.flatMap(({ fields }) => [...fields["weight"]!]).reduce((a, b) => a + b, 0);
  expect(sum(all)).toBeCloseTo(1, 6);
  expect(sum(units[0]!.rows)).toBeCloseTo(0.5, 6);
  const ofSide = (side: number): TrainRow[] => all.filter(({ fields }) => fields["sign"]![0] === side);
  const count = (side: number): number => ofSide(side).reduce((n, { trained }) => n + trained.length, 0);
  expect(scalars).toEqual({ tokens: count(1) + count(-1), chosenTokens: count(1), units: 2 });
});

test("a ranking of three becomes three pairs; scores become pairs with their difference as margin, equal ones none", async () => {
  const sides = async (row: object) =>
    (await batchFrom([{ prompt: "hi", ...row }], dpo())).units.map(({ rows }) => [...rows.map(trainedText), rows[0]!.fields["margin"]![0]]);
  const end = (...parts: readonly string[]) => parts.map((part) => `${part}<|im_end|>`);
  expect(await sides({ ranked: ["dog", "fox", "cat"] })).toEqual([
    [...end("dog", "fox"), 0],
    [...end("dog", "cat"), 0],
    [...end("fox", "cat"), 0],
  ]);
  const answers = [{ text: "fox", score: 1 }, { text: "dog", score: 4 }, { text: "cat", score: 1 }];
  expect(await sides({ answers })).toEqual([[...end("dog", "fox"), 3], [...end("dog", "cat"), 3]]);
});

test("answers of several turns with tool calls: calls and answers are trained, tool results are not", async () => {
  const prompt = [{ role: "system", content: "You may call." }, { role: "user", content: "12 + 30?" }];
  const tools = [{ name: "add", description: "Adds.", parameters: { type: "object", properties: {} } }];
  const call = { role: "assistant", content: "", toolCalls: [{ name: "add", arguments: { a: 12, b: 30 } }] };
  const chosen = [call, { role: "tool", content: "sunny" }, { role: "assistant", content: "The answer is 42" }];
  const { units } = await batchFrom([{ prompt, tools, chosen, rejected: { role: "assistant", content: "no" } }], dpo());
  const [good, bad] = units[0]!.rows;
  expect(trainedText(good!)).toMatch(/^<tool_call>[^]*"add"[^]*<\/tool_call><\|im_end\|>The answer is 42<\|im_end\|>$/);
  expect(text(good!.ids)).toContain("sunny");
  expect(trainedText(good!)).not.toContain("sunny");
  expect(trainedText(bad!)).toBe("no<|im_end|>");
  // A history in the prompt is context, its assistant turns too.
  const history = [{ role: "user", content: "hi" }, { role: "assistant", content: "the dog" }, { role: "user", content: "bye" }];
  const later = await batchFrom([{ prompt: history, chosen: "fox", rejected: "cat" }], dpo());
  expect(later.units[0]!.rows.map(trainedText)).toEqual(["fox<|im_end|>", "cat<|im_end|>"]);
});

test("labels: pairs are split in two, shares of good and bad are those of the step", async () => {
  const rows = [{ prompt: "hi", completion: "dog", label: true }, { prompt: "bye", chosen: "fox", rejected: "cat" }];
  const { units, scalars } = await batchFrom(rows, kto());
  expect(units.map(({ rows: own }) => [trainedText(own[0]!), own[0]!.fields["sign"]![0]])).toEqual([
    ["dog<|im_end|>", 1],
    ["fox<|im_end|>", 1],
    ["cat<|im_end|>", -1],
  ]);
  expect(scalars["goodShare"]).toBeCloseTo(2 / 3, 6);
  // Mismatched: each prompt with the next answer of another prompt.
  const mismatched = mismatchedRows({ units, scalars }, 4096);
  expect(mismatched.map(trainedText)).toEqual(["fox<|im_end|>", "dog<|im_end|>", "dog<|im_end|>"]);
  expect(mismatched.map(({ ids, trained }) => text(ids.subarray(0, trained[0])))).toEqual(
    units.map(({ rows: own }) => text(own[0]!.ids.subarray(0, own[0]!.trained[0]))),
  );
  expect(mismatchedRows({ units: units.slice(1), scalars }, 4096)).toEqual([]);
  expect(mismatchedRows({ units, scalars }, 5)).toEqual([]);
});

test("a reward model reads each answer once, after its last token", async () => {
  const { units } = await batchFrom([{ prompt: "hi", chosen: "the dog", rejected: "fox" }], rewardModel());
  for (const { ids, trained, fields } of units[0]!.rows) {
    expect([...trained]).toEqual([ids.length]);
    expect(Object.values(fields).every(({ length }) => length === 1)).toBe(true);
  }
});

test("turns: each label stands after its turn's own tokens, tool output and questions between them are left out", async () => {
  const messages = [
    { role: "user", content: "12 + 30?" },
    { role: "assistant", content: "fox" },
    { role: "user", content: "Are you sure?" },
    { role: "assistant", content: "42" },
  ];
  const [example, ...others] = await read([{ messages, labels: [0.25, 1] }], processRewardModel());
  if (example?.kind !== "steps") throw new Error("no steps");
  const { ids, after, labels } = example;
  const last = [...after].map((end) => text(ids.subarray(0, end)).split("<|im_start|>assistant\n").at(-1));
  expect(last).toEqual(["fox<|im_end|>", "42<|im_end|>"]);
  expect([[...labels], others]).toEqual([[0.25, 1], []]);
});

test("steps: the label stands after the last token of each step, the separator included", async () => {
  const steps = ["Let x be 12.", "Then x + 30 is 42 — Zürich.", "The answer is 42."];
  const row = { prompt: "12 + 30?", steps, labels: [1, 0.25, 0] };
  const { units, scalars } = await batchFrom([row], processRewardModel({ separator: "\n\n" }));
  const { ids, trained, fields } = units[0]!.rows[0]!;
  const start = text(ids).indexOf(steps[0]!);
  const upTo = (k: number): string => text(ids.subarray(0, trained[k])).slice(start);
  expect([upTo(0), upTo(1), upTo(2)]).toEqual([
    "Let x be 12.\n\n",
    "Let x be 12.\n\nThen x + 30 is 42 — Zürich.\n\n",
    steps.join("\n\n"),
  ]);
  expect([...fields["label"]!]).toEqual([1, 0.25, 0]);
  expect(scalars["tokens"]).toBe(3);
  const hard = await batchFrom([row], processRewardModel({ labels: "hard" }));
  expect([...hard.units[0]!.rows[0]!.fields["label"]!]).toEqual([1, 1, 0]);
});

test("a merge across the end of the prompt does not happen: both rows begin with the prompt's own ids", async () => {
  const tokenizer = openTokenizer(
    trainBpe(Array.from({ length: 50 }, () => "Price: $46 and $23, or $12"), { vocabSize: 300, specials: TINY_SPECIALS }),
    specials,
  );
  // A template whose generation prompt ends in a space, with nothing that no merge could cross.
  const bare =
    "{% for m in messages %}{% if m.role == 'assistant' %}Price: {{ m.content }}<|im_end|>" +
    "{% else %}{{ m.content }}{% endif %}{% endfor %}" +
    "{% if add_generation_prompt %}Price: {% endif %}";
  const plain = rendererFor(bare, tokenizer);
  const whole = tokenizer.encode("Price: $46");
  const prompt = tokenizer.encode("Price: ");
  // Encoded as one text, the space would go to the "$".
  expect(whole.slice(0, prompt.length)).not.toEqual(prompt);
  const rows = [{ prompt: "or ", chosen: "23", rejected: "$46" }];
  const { units } = batchOf(await read(rows, dpo(), { renderer: plain }), dpo());
  const opening = tokenizer.encode("or Price: ");
  for (const { ids, trained } of units[0]!.rows) {
    expect([...ids.subarray(0, opening.length)]).toEqual(opening);
    expect(trained[0]).toBe(opening.length);
    expect(ids.at(-1)).toBe(tokenizer.idOf("<|im_end|>"));
  }
});

test("one begin-of-text token at most: a template that writes two is refused, one that writes one is not", async () => {
  const rows = [{ prompt: "hi", chosen: "dog", rejected: "fox" }];
  const bos = "<|begin_of_text|>";
  const one = batchOf(await read(rows, dpo(), { renderer: rendererFor(bos + chatml) }), dpo());
  const id = renderer.tokenizer.bosId!;
  for (const { ids } of one.units[0]!.rows) expect([...ids].filter((token) => token === id)).toEqual([id]);
  await expect(read(rows, dpo(), { renderer: rendererFor(bos + bos + chatml) })).rejects.toThrow(
    /line 1 chosen: expected one begin-of-text token, got two/,
  );
});

const good = { prompt: "hi", chosen: "dog", rejected: "fox" };
const turn = { role: "assistant", content: "dog" };
const said = (content: unknown, role = "user") => ({ messages: [{ role, content }, turn] });
test.each<[string, OfflineAlgorithm, object, RegExp]>([
  ["an answer without a token", dpo(), { ...good, rejected: "" }, /line 2 rejected: expected at least one token in each assistant message/],
  ["an answer that is a question", dpo(), { ...good, chosen: { role: "user", content: "x" } }, /chosen: expected an answer that begins/],
  ["a prompt that ends with an answer", dpo(), { ...good, prompt: [{ role: "assistant", content: "x" }] }, /2 chosen: expected a prompt/],
  ["a row that is too long", dpo(), { ...good, chosen: "dog ".repeat(60) }, /line 2: expected at most 64 tokens .*, got \d+/],
  ["a missing side", dpo(), { prompt: "hi", chosen: "x" }, /line 2 rejected: expected a text or messages, got nothing; a row /],
  ["two equal answers", dpo(), { ...good, rejected: good.chosen }, /2 "chosen" and "rejected": expected two different answers, got the/],
  ["equal scores", dpo(), { prompt: "hi", answers: [{ text: "a", score: 2 }, { text: "b", score: 2 }] }, /2: .* two scores, got 2/],
  [
    "labels and turns of two numbers",
    processRewardModel(),
    { messages: [{ role: "user", content: "hi" }, { role: "assistant", content: "dog" }], labels: [1, 0] },
    /line 2: expected 1 labels, one for each assistant message, got 2/,
  ],
  ["a score of 5", dpo(), { prompt: "hi", answers: [{ text: "a", score: 5 }, { text: "b", score: 2 }] }, /1 score: expected at most 4, /],
  ["a label that is a word", kto(), { prompt: "hi", completion: "x", label: "true" }, /2 label: expected true or false, got "true";/],
  ["labels and steps of two lengths", processRewardModel(), { prompt: "hi", steps: ["a", "b"], labels: [1] }, /line 2: expected 2 labels/],
  ["a label of 2", processRewardModel(), { prompt: "hi", steps: ["a"], labels: [2] }, /line 2 labels 1: expected at most 1, got 2; a/],
  ["a role that is mistyped", sft(), said("hi", "usr"), /2 messages 1 role: .* tool, got "usr" \(did you mean user\?\);/],
  ["a content that is a number", sft(), said(5), /2 messages 1 content: expected a text, got 5; a row is a dialogue/],
  ["a list of one message", sft(), { messages: [turn] }, /line 2 messages: expected a list of at least 2, got /],
  ["text that cannot fit", sft(), said("x".repeat(4e6)), /got 4000003 bytes of text, which are more; shorten/],
  ["an integer that is rounded", dpo(), { ...good, margin: 2 ** 53 }, /2: expected integers up to .*, got 9007199254740992; write/],
  ["an empty step", processRewardModel(), { prompt: "hi", steps: ["a", " "], labels: [1, 1] }, /line 2: .* text, got step 2/],
])("%s is refused by its line", async (_, algorithm, row, message) => {
  const steps = { prompt: "hi", steps: ["dog"], labels: [1] };
  const first = { dialogues: said("hi"), pairs: good, labels: good, steps }[algorithm.examples];
  await expect(read([first, row], algorithm, { contextLength: 64 })).rejects.toThrow(message);
});

test("reading lets other work in between, tells how far it is, and stops when it is told to", async () => {
  const path = writeRows(await temporaryFolder(), Array.from({ length: 20_000 }, () => good));
  const options = { renderer, contextLength: 64 };
  const stopping = new AbortController();
  const told: (readonly [number, number])[] = [];
  const onRead = (done: number, total: number): void => {
    told.push([done, total]);
    stopping.abort(new Error("enough"));
  };
  await expect(readExamples(path, dpo(), { ...options, onRead, signal: stopping.signal })).rejects.toThrow("enough");
  const { length } = readFileSync(path);
  expect(told).toHaveLength(1);
  expect([told[0]![0] < length / 2, told[0]![1]]).toEqual([true, length]);
});

test("a byte-order mark is no part of the first row; bytes that are no UTF-8 are named by their line", async () => {
  const folder = await temporaryFolder();
  const path = writeRows(folder, [good, good]);
  const rows = readFileSync(path);
  const options = { renderer, contextLength: 64 };
  writeFileSync(path, Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), rows]));
  expect(await readExamples(path, dpo(), options)).toHaveLength(2);
  writeFileSync(path, Buffer.concat([rows, Buffer.from(JSON.stringify({ ...good, chosen: "Z\u00fcrich" }), "latin1")]));
  await expect(readExamples(path, dpo(), options)).rejects.toThrow(/data.jsonl line 3: expected UTF-8, got bytes that are none; save/);
});
