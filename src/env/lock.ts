/**
 * "The lock": dials to be set one after another, each by one short answer; the reward comes when all are set, and nothing before it. A
 * long chain of small decisions, made to compare ways of giving credit. Not made by `defineEnv`, where an answer ends the episode.
 */
import { ConfigError, EnvError, expected, scored } from "../errors.ts";
import type { Env, EnvStep, Episode, JsonObject, Message, Split, Task, Turn } from "../types.ts";
import { drawLock, lockHints, observation, tryLock, type Lock, type LockHint, type LockRules } from "./lock/dials.ts";

export interface LockOptions {
  readonly seed?: number;
  /** Dials, 1 to 24. */
  readonly steps?: number;
  /** Settings of a dial, 2 to 4. */
  readonly choices?: number;
  /** Wrong answers that are forgiven, each leaving its dial as it is; one more jams the lock. */
  readonly tries?: number;
  readonly hint?: LockHint;
  readonly sizes?: { readonly [S in Split]: number };
}

/** What a task of this environment holds as its data. */
export const lockOf = (task: Task): Lock => task.data as unknown as Lock;

/** The lock environment. Reward: 1 if every dial is set, else 0; the measure `progress` is the share of dials set. */
export function lock({ sizes = { train: 2_000, test: 200 }, ...options }: LockOptions = {}): Env {
  const rules: LockRules = { seed: 0, steps: 12, choices: 2, tries: 6, hint: "sign", ...options };
  const ranges = [["seed", 0, 2 ** 32 - 1], ["steps", 1, 24], ["choices", 2, 4], ["tries", 0, 24]] as const;
  for (const [key, low, high] of ranges) {
    if (Number.isInteger(rules[key]) && rules[key] >= low && rules[key] <= high) continue;
    throw new ConfigError(expected(`env.${key}`, `an integer from ${low} to ${high}`, JSON.stringify(rules[key])));
  }
  if (!lockHints.includes(rules.hint)) {
    throw new ConfigError(expected("env.hint", lockHints.map((hint) => `"${hint}"`).join(" or "), JSON.stringify(rules.hint)));
  }
  return {
    name: "lock",
    tools: [],
    tasks: (split) => ({ size: sizes[split], at: (index) => taskOf(split, index, { ...rules, size: sizes[split] }) }),
    start,
    reward: ({ task, turns }) => {
      const { set, wrong, malformed } = tryLock(lockOf(task), turns.map(answerOf));
      const dials = lockOf(task).right.length;
      return scored(set === dials ? 1 : 0, `${set} of ${dials} dials set, ${wrong} wrong answers, ${malformed} unreadable`);
    },
    reference: (task) => lockOf(task).right.map((content): Message => ({ role: "assistant", content })),
  };
}

function taskOf(split: Split, index: number, rules: LockRules & { readonly size: number }): Task {
  if (!Number.isInteger(index) || index < 0 || index >= rules.size) {
    throw new ConfigError(expected(`lock ${split} task`, `an index from 0 to ${rules.size - 1}`, String(index)));
  }
  const made = drawLock(split, index, rules);
  const number = 2 * index + (split === "test" ? 1 : 0);
  const settings = Array.from({ length: rules.choices }, (_, i) => i + 1).join(" or ");
  const prompt: Message[] = [{ role: "user", content: `Lock ${number}. Say ${settings}.\n${observation(made, { set: 0, wrong: 0 })}` }];
  return { id: `lock-${split}-${index}`, prompt, data: made as unknown as JsonObject };
}

/** The answer of a turn; a call or a turn that was cut is none. */
const answerOf = ({ parse, message }: Pick<Turn, "parse" | "message">): string => (parse === "answer" ? message.content.trim() : "");

function start(task: Task): Episode {
  const answers: string[] = [];
  const { right } = lockOf(task);
  let closed = false;
  return {
    async step(turn): Promise<EnvStep> {
      if (closed) throw new EnvError(expected("environment lock: step", "no turn after the end", "another turn", "start a new episode"));
      answers.push(answerOf(turn));
      const tried = tryLock(lockOf(task), answers);
      closed = tried.done;
      return { messages: tried.done ? [] : [{ role: "user", content: observation(lockOf(task), tried) }], done: tried.done };
    },
    measures() {
      const { set, wrong, malformed } = tryLock(lockOf(task), answers);
      return { turns: answers.length, dialsSet: set, wrongAnswers: wrong, malformedAnswers: malformed, progress: set / right.length };
    },
    async [Symbol.asyncDispose]() {
      closed = true;
    },
  };
}
