/**
 * Sums of days of a week, "Days go from 0 to 6. Which day is 4+5+2+6?", without a tool: (4 + 5 + 2 + 6) mod 7. A small model can learn the
 * sums of one step by heart, but not those of a whole chain: writing the steps down makes the task possible. The same tasks also without.
 */
import { scored } from "../../src/errors.ts";
import { defineEnv, gated, number } from "../../src/env/kit.ts";
import { hash32, integer, permutation, rng } from "../../src/random.ts";
import type { Env, Message, Reward, Split, Task, Turn } from "../../src/types.ts";

/** Of a week: 42 sums of one step, and no part of a chain says anything about its result. */
const days = 7;

export interface ChainOptions {
  /** Whether answers must come with reasoning (true) or without (false). */
  readonly reasoning: boolean;
  /** Fewest and most numbers of a chain. */
  readonly terms: readonly [number, number];
  readonly sizes: { readonly [S in Split]: number };
}

/** Reward: 1 for the right number in the right form, else 0. The form is a gate: it earns nothing, and nothing is earned without it. */
export function chain({ reasoning, terms, sizes }: ChainOptions): Env {
  const form: Reward = ({ turns }) => {
    const fits = fitsForm(turns.at(-1), reasoning);
    return scored(fits ? 1 : 0, fits ? "in the asked form" : "not in the asked form");
  };
  return defineEnv({
    name: "chain",
    tasks: (split) => ({ size: sizes[split], at: (index) => taskOf(split, index, terms) }),
    reward: gated({ form }, "answer", number({ after: "answer is" })),
    reference: (task) => [worked(task, reasoning)],
    maxTurns: 1,
    measures: ({ task, turns }) => ({
      inForm: fitsForm(turns.at(-1), reasoning) ? 1 : 0,
      reasoningCharacters: turns.at(-1)?.message.reasoning?.length ?? 0,
      trueSteps: shareOfTrueSteps(turns.at(-1)?.message.reasoning ?? ""),
      allSteps: (turns.at(-1)?.message.reasoning ?? "").split("\n").length >= stepsOf(task.data).length ? 1 : 0,
    }),
  });
}

/** A turn that ended by itself with an answer, after one closed block of reasoning or (`reasoning` false) without any. */
export function fitsForm(turn: Turn | undefined, reasoning: boolean): boolean {
  if (turn?.parse !== "answer") return false;
  const { content, reasoning: thought = "" } = turn.message;
  const plain = (text: string): boolean => text.trim() !== "" && !/<\/?think>/.test(text);
  return plain(content) && (reasoning ? plain(thought) : thought === "");
}

/** Of the lines of a reasoning, how many are a sum of a day and a number with its right result; 0 for no reasoning. */
export function shareOfTrueSteps(reasoning: string): number {
  const lines = reasoning.split("\n").filter((line) => line !== "");
  const right = lines.filter((line) => {
    const [, a, b, result] = /^(\d)\+(\d)=(\d)$/.exec(line) ?? [];
    return a !== undefined && (Number(a) + Number(b)) % days === Number(result);
  });
  return lines.length === 0 ? 0 : right.length / lines.length;
}

/** The right answer to a task, alone or after its steps. */
export function worked({ data }: Task, reasoning: boolean): Message {
  const answer: Message = { role: "assistant", content: `The answer is ${data["answer"] as number}.` };
  return reasoning ? { ...answer, reasoning: stepsOf(data).join("\n") } : answer;
}

const stepsOf = (data: Task["data"]): readonly string[] => data["steps"] as readonly string[];

/** Draws until the chain falls to this split: a fifth of all chains, by hash, belong to the test split. */
function taskOf(split: Split, index: number, [least, most]: readonly [number, number]): Task {
  for (let attempt = 0; ; attempt++) {
    const key = rng(0, "chain", split, index, attempt);
    const count = least + integer(key, most - least + 1);
    const start = integer(rng(0, "start", split, index, attempt), days);
    // All different, so that it is plain in a chain what comes next.
    const added = permutation(rng(0, "added", split, index, attempt), days - 1).slice(0, count - 1).map((number) => number + 1);
    const expression = [start, ...added].join("+");
    let day = start;
    const steps = added.map((number) => {
      const before = day;
      day = (day + number) % days;
      return `${before}+${number}=${day}`;
    });
    if ((hash32(expression) % 5 === 0) !== (split === "test")) continue;
    const prompt: Message[] = [{ role: "user", content: `Days go from 0 to 6. Which day is ${expression}?` }];
    return { id: `chain-${split}-${index}`, prompt, data: { answer: day, steps } };
  }
}
