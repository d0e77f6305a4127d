import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConfigError } from "../../../src/errors.ts";
import { dataset, tasksFrom } from "../../../src/loop/prompt/dataset.ts";
import { tasksOfStep } from "../../../src/loop/prompt/order.ts";
import type { TaskSource } from "../../../src/types.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";

const source = (size: number): TaskSource => tasksFrom(Array.from({ length: size }, (_, i) => ({ id: i, question: `q${i}` })));
const idsOf = (tasks: TaskSource, steps: readonly number[], count: number, seed = 3): string[] =>
  steps.flatMap((step) => tasksOfStep(tasks, { seed, step, count }).map(({ id }) => id));
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const ordered = (ids: readonly string[]): number[] => ids.map(Number).sort((a, b) => a - b);

test("every task exactly once in a pass, whatever the size of a step", () => {
  for (const count of [1, 2, 4, 5, 20]) {
    const ids = idsOf(source(20), range(1, 20 / count), count);
    expect(ordered(ids)).toEqual(range(0, 19));
    expect(ids.map(Number)).not.toEqual(range(0, 19));
  }
});

test("a remainder is carried into the next pass: 20 tasks in steps of 8 are each used twice in five steps", () => {
  const ids = idsOf(source(20), range(1, 5), 8);
  expect(ordered(ids.slice(0, 20))).toEqual(range(0, 19));
  expect(ordered(ids.slice(20))).toEqual(range(0, 19));
});

test("the end of a pass is not the end of the run: steps 4 to 6 are the second pass, in an order of its own", () => {
  const tasks = source(6);
  const [first, second] = [idsOf(tasks, [1, 2, 3], 2), idsOf(tasks, [4, 5, 6], 2)];
  expect(ordered(second)).toEqual(range(0, 5));
  expect(second).not.toEqual(first);
  // A resumed run asks for step 4 alone and gets the same.
  expect(idsOf(source(6), [4], 2)).toEqual(second.slice(0, 2));
});

test("another seed is another order; a step larger than the source goes round", () => {
  expect(idsOf(source(20), [1], 20, 4)).not.toEqual(idsOf(source(20), [1], 20, 3));
  expect(ordered(idsOf(source(3), [1], 7)).length).toBe(7);
  expect(() =>
    tasksOfStep(
      {
        size: 0,
        at: () => {
          throw new Error("none");
        },
      },
      { seed: 0, step: 1, count: 1 },
    ),
  ).toThrow("tasks: expected at least one, got none");
});

test("a JSONL file becomes tasks: question or messages, a system message, ids of its own or of the line", async () => {
  const path = join(await temporaryFolder(), "rows.jsonl");
  const chat = { id: "chat", messages: [{ role: "user", content: "hi" }], answer: 1 };
  writeFileSync(path, `{"question": "2+2?", "answer": 4}\n\n${JSON.stringify(chat)}\n`);
  const tasks = dataset(path, { needs: ["answer"], system: "Be short." });
  expect(tasks.size).toBe(2);
  expect(tasks.at(0)).toEqual({
    id: "rows.jsonl:1",
    prompt: [{ role: "system", content: "Be short." }, { role: "user", content: "2+2?" }],
    data: { question: "2+2?", answer: 4 },
  });
  expect(tasks.at(1)).toMatchObject({ id: "chat", prompt: [{ role: "system" }, { role: "user", content: "hi" }] });
});

test.each<[string, string, object, string]>([
  ["no JSON", '{"question": "a"}\n\n{"question": ', {}, "line 3: expected a JSON object, got"],
  ["no object", "[1]", {}, "line 1: expected a JSON object, got [1]"],
  [
    "a missing question",
    '\n{"prompt": "a", "answer": 1}',
    {},
    'line 2: expected a field "question", got fields prompt, answer; rename the field or say which one to use',
  ],
  ["a missing need", '{"question": "a", "gold": 1}', { needs: ["answer"] }, 'line 1: expected a field "answer", got fields question, gold'],
  ["an empty question", '{"question": ""}', {}, 'line 1 field "question": expected a text that is not empty, got ""'],
  ["a question that is no text", '{"question": 5}', {}, 'line 1 field "question": expected a text that is not empty, got 5'],
  [
    "bad messages",
    '{"messages": [{"role": "robot"}]}',
    {},
    'line 1 field "messages": expected a list of {role, content}, got [{"role":"robot"}]',
  ],
  [
    "an id twice",
    '{"id": 7, "question": "a"}\n{"id": 8, "question": "b"}\n{"id": "7", "question": "c"}',
    {},
    'line 3 field "id": expected an id used once, got "7", the id of',
  ],
  ["a need of the prototype", '{"question": "a"}', { needs: ["toString"] }, 'line 1: expected a field "toString", got fields question'],
  [
    "an integer that would be rounded",
    '{"question": "the 9007199254740993"}\n{"question": "a", "answer": 9007199254740993}',
    {},
    "line 2: expected integers up to 9007199254740991 and numbers up to 1.8e308, got 9007199254740993; " +
      'write it as a text: "9007199254740993"',
  ],
  ["a number beyond all bounds", '{"question": "a", "answer": -1e999}', {}, 'line 1: expected integers up to 9007199254740991'],
  ["no row", "\n\n", {}, "expected at least one row, got none"],
])("a dataset with %s is refused, naming line, field and what was found", async (_what, text, options, message) => {
  const path = join(await temporaryFolder(), "rows.jsonl");
  writeFileSync(path, text);
  const read = (): TaskSource => dataset(path, options);
  expect(read).toThrow(ConfigError);
  expect(read).toThrow(message);
  expect(read).toThrow(path);
});

test("a byte-order mark is no text, and bytes that are no UTF-8 are named by their line", async () => {
  const path = join(await temporaryFolder(), "rows.jsonl");
  writeFileSync(path, '\ufeff{"question": "a \\"12345678901234567890\\" b", "answer": 12345678}\r\n{"question": "\u00fc"}\r\n');
  expect(dataset(path).at(0).data).toEqual({ question: 'a "12345678901234567890" b', answer: 12345678 });
  expect(dataset(path).at(1).prompt).toEqual([{ role: "user", content: "\u00fc" }]);
  writeFileSync(path, Buffer.from('{"question": "a"}\n{"question": "\u00fc"}', "latin1"));
  expect(() => dataset(path)).toThrow(/rows.jsonl line 2: expected UTF-8, got bytes that are none; save the file as UTF-8$/);
});

test("a file that is not there is named", () => {
  expect(() => dataset("/nowhere/rows.jsonl")).toThrow(/^dataset \/nowhere\/rows.jsonl: expected a readable file, got ENOENT/);
});
