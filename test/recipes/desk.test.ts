import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";
import { expect, test } from "vitest";
import { MISTAKES, scriptOf, type Behaviour } from "../../recipes/desk/behaviours.ts";
import { corpus } from "../../recipes/desk/corpus.ts";
import { dialogues, type Dialogue } from "../../recipes/desk/dialogues.ts";
import { draw } from "../../src/env/desk/draw.ts";
import { desk, questionOf } from "../../src/env/desk.ts";
import { WORDS } from "../../src/env/desk/words.ts";
import { rng } from "../../src/random.ts";
import type { Message } from "../../src/types.ts";

const env = desk();
const made = await dialogues(7, 2_000);
const question = (dialogue: Dialogue) => questionOf(env.tasks("train").at(Number(dialogue.taskId.split("-").at(-1))));
const share = (list: readonly Dialogue[], is: (dialogue: Dialogue) => boolean): number => list.filter(is).length / list.length;
const FULL_TEST_NAMES = [
  ...WORDS.test.adjectives.flatMap((first) => WORDS.test.items.map((second) => `${first} ${second}`)),
  ...WORDS.test.firstNames.flatMap((first) => WORDS.test.lastNames.map((second) => `${first} ${second}`)),
];

test("dialogues are a function of the seed and of their position", async () => {
  expect(await dialogues(7, 40)).toEqual(made.slice(0, 40));
  expect(await dialogues(8, 40)).not.toEqual(made.slice(0, 40));
  expect(new Set(made.map(({ taskId }) => taskId)).size).toBe(2_000);
});

test("the share of right dialogues is the stated one, and only recovered mistakes add to it", async () => {
  // Four standard deviations at 2,000 dialogues: 0.045.
  expect(Math.abs(share(made, ({ behaviour }) => behaviour === "right") - 0.55)).toBeLessThan(0.045);
  for (const { behaviour, score } of made) {
    if (behaviour === "right" || behaviour === "malformed") expect(score).toBe(1);
    else expect([behaviour, score]).toEqual([behaviour, 0]);
  }
  expect(share(await dialogues(1, 200, { right: 1 }), ({ score }) => score === 1)).toBe(1);
  expect(share(await dialogues(1, 200, { right: 0 }), ({ behaviour }) => behaviour === "right")).toBe(0);
});

test("mistakes come in the stated odds and show in the measure that is named for them", async () => {
  for (const [kind, odds] of Object.entries(MISTAKES)) {
    expect(Object.values(odds).reduce((sum, odd) => sum + odd, 0)).toBe(100);
    const wrong = made.filter((dialogue) => dialogue.behaviour !== "right" && question(dialogue).kind === kind);
    for (const [mistake, odd] of Object.entries(odds)) {
      const found = share(wrong, ({ behaviour }) => behaviour === mistake);
      expect([kind, mistake, Math.abs(found - odd / 100) < 4 * Math.sqrt(0.25 / wrong.length)]).toEqual([kind, mistake, true]);
    }
  }
});

test("every mistake of a kind can be made with every question of that kind, and is one", () => {
  for (let i = 0; i < env.tasks("train").size; i++) {
    const asked = questionOf(env.tasks("train").at(i));
    for (const [mistake, odd] of Object.entries(MISTAKES[asked.kind]) as [Behaviour, number][]) {
      if (odd === 0 || mistake === "malformed") continue;
      const last = scriptOf(asked, mistake, draw(rng(5, i, mistake))).at(-1)!;
      expect([last.parse, last.message.content]).toEqual(["answer", expect.stringMatching(/^The answer is [\w -]+\.$/)]);
      expect(last.message.content).not.toBe(asked.final);
    }
  }
});

test("tool results in dialogues are those of the environment, and calls are answered by id", () => {
  for (const { messages, behaviour } of made) {
    expect(messages.at(-1)!.role).toBe("assistant");
    expect(messages.at(-1)!.toolCalls).toBeUndefined();
    messages.forEach((message, i) => {
      if (message.role !== "tool") return;
      expect(messages[i - 1]!.toolCalls!.map(({ id }) => id)).toEqual([message.toolCallId]);
      if (behaviour === "right") expect(message.content).not.toMatch(/^error/);
      if (behaviour === "wrongTool" || behaviour === "needlessTool") expect(message.content).toMatch(/^error: /);
    });
  }
});

test("nothing in the dialogues or the corpus holds a name of the test split", () => {
  const text = [...corpus(3, 300_000), ...made.map(({ messages }) => JSON.stringify(messages))].join("\n");
  expect(FULL_TEST_NAMES.filter((name) => text.includes(name))).toEqual([]);
  const dialogueText = JSON.stringify(made);
  for (const words of Object.values(WORDS.test)) {
    for (const word of words.filter((entry: string) => entry.length > 3)) expect(dialogueText).not.toMatch(new RegExp(`\\b${word}\\b`));
  }
});

test("the corpus has every word of both splits, the stated size, and no result of a sum", () => {
  const parts = [...corpus(3, 200_000)];
  const text = parts.join("\n");
  expect(text.length).toBeGreaterThanOrEqual(200_000 - 1);
  expect(text.length).toBeLessThan(201_000);
  expect([...corpus(3, 200_000)]).toEqual(parts);
  expect(parts.slice(0, 50)).not.toEqual([...corpus(4, 200_000)].slice(0, 50));
  const words = [WORDS.train, WORDS.test].flatMap((split) => Object.values(split).flat() as string[]);
  const phrases = ["What does", "cost?", "Which shelf", "The answer is", "Repeat the code", '{"name": "', '"field": "stock"}'];
  expect([...words, ...phrases].filter((part) => !text.includes(part))).toEqual([]);
  for (const line of parts.filter((part) => part.includes("Work out"))) expect(line).toMatch(/Work out [\d+*()-]+\.$/);
});

// ------------------------------------------------------------------------------------------------------ chat template

const source = readFileSync(new URL("../../recipes/desk/chat-template.jinja", import.meta.url), "utf8");
const template = new Template(source);
const form = ({ role, content, toolCalls }: Message) => {
  const calls = toolCalls?.map(({ id, name, arguments: args }) => ({ id, type: "function", function: { name, arguments: args } }));
  return { role, content, ...(calls === undefined ? {} : { tool_calls: calls }) };
};
const render = (messages: readonly Message[], generation: boolean, withTools = true): string =>
  template.render({
    messages: messages.map(form),
    tools: withTools ? env.tools.map(({ spec }) => ({ type: "function", function: spec })) : null,
    add_generation_prompt: generation,
  });

test("a rendered conversation, to the letter", () => {
  const messages: Message[] = [
    { role: "system", content: "You help." },
    { role: "user", content: 'What does "blue toner" cost?' },
    { role: "assistant", content: "", toolCalls: [{ id: "c", name: "lookup", arguments: { name: "blue toner", field: "price" } }] },
    { role: "tool", content: "12", toolCallId: "c", name: "lookup" },
    { role: "assistant", content: "The answer is 12." },
  ];
  expect(render(messages, false)).toBe(
    `<|im_start|>system
You help.
calculator(expression): Works out a sum.
lookup(name, field=price|stock|shelf|desk|phone|start): Reads one field of a record.<|im_end|>
<|im_start|>user
What does "blue toner" cost?<|im_end|>
<|im_start|>assistant
<tool_call>{"name": "lookup", "arguments": {"name": "blue toner", "field": "price"}}</tool_call><|im_end|>
<|im_start|>tool
<tool_response>12</tool_response><|im_end|>
<|im_start|>assistant
The answer is 12.<|im_end|>
`,
  );
  const asked = '<|im_start|>user\nWhat does "blue toner" cost?<|im_end|>\n';
  expect(render(messages.slice(1, 2), true, false)).toBe(`${asked}<|im_start|>assistant\n`);
  expect(render([messages[1]!, { role: "system", content: "b" }], false, false)).toBe(`${asked}<|im_start|>system\nb<|im_end|>\n`);
});

test("every turn extends the text before it, and the generation prompt opens the assistant's turn", () => {
  for (const { messages } of made.slice(0, 200)) {
    for (let n = 1; n <= messages.length; n++) {
      const shorter = render(messages.slice(0, n - 1), messages[n - 1]!.role === "assistant");
      expect(render(messages.slice(0, n), false).startsWith(n === 1 ? "" : shorter)).toBe(true);
    }
  }
});

test("a first prompt is short", () => {
  const lengths = Array.from({ length: 300 }, (_, i) => render(env.tasks("train").at(i).prompt, true).length);
  expect(Math.max(...lengths)).toBeLessThan(380);
});
