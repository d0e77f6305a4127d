/**
 * "The desk": an office helper with a calculator and a look-up. A question needs one of them, both in sequence, or none, so a policy
 * has to learn when to call, which tool, with which arguments, and to use what came back. Small enough for a few million parameters.
 */
import { z } from "zod";
import { ConfigError, expected } from "../errors.ts";
import { exactText } from "../loop/reward/verifiers/exact-text.ts";
import { number } from "../loop/reward/verifiers/number.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import { defineTool, type CallRecord } from "../loop/rollout/tools.ts";
import type { ToolExpectation } from "../tool-use.ts";
import type { Env, JsonObject, Message, Split, Task, TaskSource, ToolCall, Verdict } from "../types.ts";
import { calculator } from "./calculator.ts";
import type { Question, QuestionKind } from "./desk/question.ts";
import { KINDS, question } from "./desk/questions.ts";
import { FIELDS, lookUp } from "./desk/records.ts";

const SYSTEM = "You help in an office. End with: The answer is X.";

export interface DeskOptions {
  readonly seed?: number;
  /** What the questions need: a sum, a record, a record and then a sum, or no tool. */
  readonly kinds?: readonly QuestionKind[];
  /** Number of tasks of each split. */
  readonly sizes?: { readonly [S in Split]: number };
}

/** The desk environment. Reward: 1 for the right final answer, else 0; how tools were used is measured beside it. */
export function desk({ seed = 0, kinds = KINDS, sizes = { train: 4_000, test: 500 } }: DeskOptions = {}): Env {
  if (kinds.length === 0 || new Set(kinds).size !== kinds.length || !kinds.every((kind) => KINDS.includes(kind))) {
    const want = `a list of ${KINDS.map((kind) => `"${kind}"`).join(", ")}, each at most once`;
    throw new ConfigError(expected("env.kinds", want, JSON.stringify(kinds)));
  }
  return defineEnv({
    name: "desk",
    tasks: (split) => tasks(split, { seed, kinds, size: sizes[split] }),
    tools: [calculator, lookup],
    reward: judge,
    reference,
    maxTurns: 4,
    limits: { maxResultChars: 200, maxCallsPerTurn: 2 },
    expects,
  });
}

const lookup = defineTool({
  name: "lookup",
  description: "Reads one field of a record.",
  parameters: z.strictObject({ name: z.string(), field: z.enum(FIELDS) }),
  run: ({ name, field }, { task }) => lookUp(questionOf(task).records, name, field),
});

function tasks(
  split: Split,
  { seed, kinds, size }: { readonly seed: number; readonly kinds: readonly QuestionKind[]; readonly size: number },
): TaskSource {
  return {
    size,
    at(index) {
      if (!Number.isInteger(index) || index < 0 || index >= size) {
        throw new ConfigError(expected(`desk ${split} task`, `an index from 0 to ${size - 1}`, String(index)));
      }
      const made = question({ seed, split, index }, kinds);
      const prompt: Message[] = [{ role: "system", content: SYSTEM }, { role: "user", content: made.text }];
      return { id: `desk-${split}-${index}`, prompt, data: made as unknown as JsonObject };
    },
  };
}

/** What a task of this environment holds as its data. */
export const questionOf = (task: Task): Question => task.data as unknown as Question;

const byNumber = number({ after: "answer is" });
const byText = exactText({ after: "answer is" });

function judge(episode: Parameters<Env["reward"]>[0]): Verdict {
  return questionOf(episode.task).answerType === "number" ? byNumber(episode) : byText(episode);
}

function reference(task: Task): readonly Message[] {
  const { needs, final } = questionOf(task);
  const calls = needs.map((need, i): ToolCall => ({ id: `call-${i + 1}`, name: need.tool, arguments: need.arguments }));
  return [...calls.map((call): Message => ({ role: "assistant", content: "", toolCalls: [call] })), { role: "assistant", content: final }];
}

function expects(task: Task): ToolExpectation {
  const { text, needs } = questionOf(task);
  const scoreOf = (verdict: Verdict): number => (verdict.type === "scored" ? verdict.score : 0);
  const right = (content: string): boolean => scoreOf(judge({ task, messages: [{ role: "assistant", content }], turns: [] })) === 1;
  const facts = [...needs.map((need) => need.result), ...numbersIn(text)];
  /** A sum of the task's numbers and of results seen before. */
  const concerns = (call: Pick<ToolCall, "name" | "arguments">, earlier: readonly CallRecord[]): boolean => {
    const known = [...facts, ...earlier.map((record) => record.resultText)];
    const { expression } = call.arguments;
    return typeof expression === "string" && numbersIn(expression).every((value) => known.includes(value));
  };
  return { needs: needs.map(({ tool, result }) => ({ tool, result })), concerns, right };
}

const numbersIn = (text: string): readonly string[] => text.match(/\d+/g) ?? [];
