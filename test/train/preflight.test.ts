import { expect, test } from "vitest";
import { scored } from "../../src/errors.ts";
import { tasksFrom } from "../../src/loop/prompt/dataset.ts";
import { defineEnv, type EnvDefinition } from "../../src/loop/rollout/tool-env.ts";
import { preflight } from "../../src/train/preflight.ts";
import type { Finite, Task, Verdict } from "../../src/types.ts";
import { rendererOf } from "../fakes/chat-families.ts";

const renderer = rendererOf("chatml");
const right = (content: string, gold: string): Verdict => scored(content === gold ? 1 : 0, `said ${content}`);

const goldOf = ({ data }: Task): string => JSON.stringify(data["gold"]).slice(1, -1);

function check(
  definition: Partial<EnvDefinition>,
  { rows = [{ id: "a", question: "2+2?", gold: "4" }], maxTokens = 16 } = {},
): Promise<void> {
  const env = defineEnv({
    name: "test",
    tasks: tasksFrom(rows),
    reward: ({ task, messages }) => right(messages.at(-1)!.content, goldOf(task)),
    reference: (task) => [{ role: "assistant", content: goldOf(task) }],
    ...definition,
  });
  return preflight(env, env.tasks("train"), { renderer, contextLength: 128, maxTokens });
}

test("a grader that pays the reference and nothing else passes", async () => {
  await check({});
});

test.each<[string, Partial<EnvDefinition>, string]>([
  [
    "a reference that does not score 1",
    { reference: () => [{ role: "assistant", content: "five" }] },
    "preflight: reference solution of task a: expected score 1, got score 0 (said five); the grader or the reference is wrong",
  ],
  [
    "a gold answer that cannot be read",
    { reward: () => ({ type: "unscorable", reason: "the gold answer has no number" }) },
    "preflight: reference solution of task a: expected score 1, got unscorable: the gold answer has no number",
  ],
  [
    "the same without a reference",
    { reference: undefined as never, reward: () => ({ type: "unscorable", reason: "the gold answer has no number" }) },
    "an empty answer to task a: expected score 0, got unscorable: the gold answer has no number; the grader cannot grade this task",
  ],
  ["no reference turn", { reference: () => [] }, "preflight: reference of task a: expected at least one assistant message, got none"],
  [
    "an empty answer that pays",
    { reward: ({ messages }) => scored("4".includes(messages.at(-1)!.content) ? 1 : 0, "part of the gold") },
    "preflight: an empty answer to task a: expected score 0, got score 1 (part of the gold); the grader pays for nothing",
  ],
  [
    "a question that pays",
    { reward: ({ messages }) => scored(/\d/.test(messages.at(-1)!.content) ? 1 : 0, "a digit") },
    "preflight: the question as the answer to task a: expected score 0, got score 1 (a digit)",
  ],
  [
    "a grader that throws",
    {
      reward: () => {
        throw new Error("HTTP 503");
      },
    },
    "preflight: reference solution of task a: expected score 1, got infrastructure: grader: HTTP 503",
  ],
])("%s is refused by the task's name", async (_what, definition, message) => {
  await expect(check(definition)).rejects.toThrow(message);
});

test("a prompt without room for an answer is refused by its id, wherever it is in the list", async () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({ id: `t${i}`, question: i === 33 ? "why ".repeat(60) : "2+2?", gold: "4" }));
  await expect(check({}, { rows })).rejects.toThrow(
    /^task t33: expected a prompt of at most 112 tokens \(context 128 less rollout.maxTokens 16\), got \d+; leave the task out or lower/,
  );
});

test("turns as long as the model's context are refused before any prompt is measured", async () => {
  for (const maxTokens of [128, 1104]) {
    const message = `rollout.maxTokens: expected less than the model's context of 128, got ${maxTokens}; lower it`;
    await expect(check({}, { maxTokens })).rejects.toThrow(message);
  }
  await expect(check({}, { maxTokens: 127 })).rejects.toThrow(/^task a: expected a prompt of at most 1 tokens/);
});

test("an abort is heard between tasks", async () => {
  const controller = new AbortController();
  const env = defineEnv({
    name: "test",
    tasks: tasksFrom([{ question: "a" }, { question: "b" }]),
    reward: () => (controller.abort(new Error("enough")), scored(0, "")),
  });
  const checking = preflight(env, env.tasks("train"), { renderer, contextLength: 128, maxTokens: 16, signal: controller.signal });
  await expect(checking).rejects.toThrow("enough");
});

test("a score that is no number is no score: a grader that gives nothing else grades nothing", async () => {
  const reward = (): Verdict => ({ type: "scored", score: NaN as Finite, explanation: "", components: {} });
  await expect(check({ reward })).rejects.toThrow(/preflight: .* got infrastructure: grader: .*finite number, got number NaN/);
});
