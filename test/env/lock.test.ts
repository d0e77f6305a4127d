import { expect, test } from "vitest";
import { openEnv } from "../../src/env/index.ts";
import { lock, lockOf, type LockOptions } from "../../src/env/lock.ts";
import { ConfigError } from "../../src/errors.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { integer, rng } from "../../src/random.ts";
import type { Message, Task } from "../../src/types.ts";
import { envConformance } from "../conformance/env.ts";

envConformance("lock", {
  make: () => lock(),
  skeletons: ["1 or 2", "1 2", "12", "0", "3", "1."],
  entities: (task) => [/Lock (\d+)/.exec(task.prompt[0]!.content)![1]!],
});

const env = lock();
const say = (content: string): Message => ({ role: "assistant", content });
const other = (answer: string): string => (answer === "1" ? "2" : "1");

test("a task is 12 dials of two settings, each showing a sign that stands for the same answer in every lock of both splits", () => {
  const meaning = new Map<string, string>();
  for (const task of [...Array(100).keys()].flatMap((i) => [env.tasks("train").at(i), env.tasks("test").at(i)])) {
    const { right, shown, tries } = lockOf(task);
    expect([right.length, shown.length, tries]).toEqual([12, 12, 6]);
    shown.forEach((text, dial) => {
      const [, number, sign] = /^(\d+) ([A-H])$/.exec(text)!;
      expect(number).toBe(String(dial + 1));
      expect(meaning.get(sign!) ?? right[dial]).toBe(right[dial]);
      meaning.set(sign!, right[dial]!);
    });
  }
  // Eight signs, four for each answer: no answer is right more often than another.
  expect([...meaning.values()].sort()).toEqual(["1", "1", "1", "1", "2", "2", "2", "2"]);
});

test("a wrong answer leaves the dial and costs a try; the one after the last try jams the lock", async () => {
  const task = env.tasks("train").at(3);
  const { right, shown } = lockOf(task);
  const late = await playScripted(env, task, [say(other(right[0]!)), ...right.map(say)]);
  expect(late.messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
    `Lock 6. Say 1 or 2.\n${shown[0]!} 6`,
    ...shown.map((text) => `${text} 5`),
  ]);
  expect(late.verdict).toMatchObject({ type: "scored", score: 1 });
  expect(late.measures).toEqual({ turns: 13, dialsSet: 12, wrongAnswers: 1, malformedAnswers: 0, progress: 1 });
  expect(late.turns.every(({ reward }) => reward === undefined)).toBe(true);

  const jammed = await playScripted(env, task, [...right.slice(0, 3), ...Array(9).fill(other(right[3]!))].map(say));
  expect([jammed.turns.length, jammed.done]).toEqual([10, true]);
  expect(jammed.measures).toEqual({ turns: 10, dialsSet: 3, wrongAnswers: 7, malformedAnswers: 0, progress: 0.25 });
  expect(jammed.verdict).toMatchObject({ score: 0, explanation: "3 of 12 dials set, 7 wrong answers, 0 unreadable" });
});

test("what is no setting of a dial, a call and a cut turn jam the lock", async () => {
  const task = env.tasks("train").at(0);
  for (const content of ["3", "one", "", "1 1"]) {
    const { done, measures, verdict } = await playScripted(env, task, [say(content)]);
    expect([done, measures["malformedAnswers"], verdict]).toMatchObject([true, 1, { score: 0 }]);
  }
  const right = lockOf(task).right[0]!;
  const { done, measures } = await playScripted(env, task, [{ message: say(right), parse: "truncated" }]);
  expect([done, measures["dialsSet"], measures["malformedAnswers"]]).toEqual([true, 0, 1]);
});

/** Share of locks that answers at random open. */
async function opened(options: LockOptions, count: number): Promise<number> {
  const source = lock(options);
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const task = source.tasks("train").at(i);
    const answers = Array.from({ length: 40 }, (_, t) => say(String(1 + integer(rng(1, i), options.choices ?? 2, t))));
    const { verdict } = await playScripted(source, task, answers);
    sum += verdict.type === "scored" ? verdict.score : NaN;
  }
  return sum / count;
}

test("answers at random open as many locks as chance says", async () => {
  // 12 right before 7 wrong: P(at least 12 of 18 right) = 31180 / 262144 = 0.1189; 3 deviations over 1,500 are 0.025.
  expect(Math.abs((await opened({}, 1_500)) - 0.1189)).toBeLessThan(0.025);
  // Every answer right: (1/2)^12 = 0.0002. Four settings and 4 tries: P(at least 12 of 16 right) = 4e-5.
  expect(await opened({ tries: 0 }, 300)).toBeLessThan(0.01);
  expect(await opened({ choices: 4, tries: 4 }, 300)).toBe(0);
  // Two dials, no try: 1/4; 3 deviations are 0.065.
  expect(Math.abs((await opened({ steps: 2, tries: 0 }, 400)) - 0.25)).toBeLessThan(0.065);
});

test("how much a dial says is an option", () => {
  const shown = (options: LockOptions, index: number): readonly string[] => lockOf(lock(options).tasks("train").at(index)).shown;
  const right = (options: LockOptions, index: number): readonly string[] => lockOf(lock(options).tasks("train").at(index)).right;
  expect(shown({ hint: "answer", steps: 5 }, 7)).toEqual(right({ hint: "answer", steps: 5 }, 7).map((answer, i) => `${i + 1} ${answer}`));
  expect(shown({ hint: "number", steps: 3 }, 7)).toEqual(["1", "2", "3"]);
  // Numbers alone: one combination for all locks of a seed, or nothing could be learned.
  expect(right({ hint: "number" }, 1)).toEqual(right({ hint: "number" }, 2));
  expect(right({ hint: "number" }, 1)).not.toEqual(right({ hint: "number", seed: 1 }, 1));
  expect(right({}, 1)).not.toEqual(right({}, 2));
});

test.each<[object, string]>([
  [{ steps: 0 }, "env.steps: expected an integer from 1 to 24, got 0"],
  [{ choices: 5 }, "env.choices: expected an integer from 2 to 4, got 5"],
  [{ tries: "4" }, 'env.tries: expected an integer from 0 to 24, got "4"'],
  [{ hint: "all" }, 'env.hint: expected "answer" or "sign" or "number", got "all"'],
  [{ dials: 3 }, "env (lock): expected options seed, steps, choices, tries, hint, got dials"],
])("options that are none are refused: %j", async (options, message) => {
  await expect(openEnv({ name: "lock", ...options })).rejects.toThrow(new ConfigError(message));
});

test("a configuration names it", async () => {
  const task: Task = (await openEnv({ name: "lock", steps: 3, choices: 4, tries: 0, hint: "sign", seed: 2 })).tasks("test").at(0);
  expect(task.prompt[0]!.content).toMatch(/^Lock 1\. Say 1 or 2 or 3 or 4\.\n1 [A-H] 0$/);
  expect(lockOf(task)).toMatchObject({ choices: 4, tries: 0 });
});
