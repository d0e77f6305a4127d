/**
 * Sums in plain words, answered without a tool: a small instruct model gets some right and phrases many badly, so it has
 * something to learn from a verifier that reads one number. Which operators and how many digits are options.
 */
import { ConfigError, expected } from "../errors.ts";
import { number } from "../loop/reward/verifiers/number.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import { hash32, integer, rng } from "../random.ts";
import type { Env, Message, Split, Task, TaskSource } from "../types.ts";

const operators = {
  "+": (a: number, b: number) => a + b,
  "-": (a: number, b: number) => a - b,
  "*": (a: number, b: number) => a * b,
} as const;
type Operator = keyof typeof operators;

export interface SumsOptions {
  readonly seed?: number;
  /** Digits of each operand, 1 to 4. */
  readonly digits?: number;
  readonly operators?: readonly Operator[];
  readonly sizes?: { readonly [S in Split]: number };
}

/** The sums environment. Reward: 1 if the answer's last number is the result, else 0. No sum is in both splits. */
export function sums({
  seed = 0,
  digits = 2,
  operators: allowed = ["+", "-"],
  sizes = { train: 4_000, test: 500 },
}: SumsOptions = {}): Env {
  if (!Number.isInteger(digits) || digits < 1 || digits > 4) throw new ConfigError(expected("env.digits", "1 to 4", String(digits)));
  if (allowed.length === 0 || !allowed.every((operator) => Object.hasOwn(operators, operator))) {
    throw new ConfigError(expected("env.operators", 'a list of "+", "-", "*"', JSON.stringify(allowed)));
  }
  return defineEnv({
    name: "sums",
    tasks: (split) => tasks(split, { seed, digits, allowed, size: sizes[split] }),
    reward: number(),
    reference: (task): Message[] => [{ role: "assistant", content: JSON.stringify(task.data["answer"]) }],
    maxTurns: 1,
  });
}

interface Drawing {
  readonly seed: number;
  readonly digits: number;
  readonly allowed: readonly Operator[];
  readonly size: number;
}

function tasks(split: Split, drawing: Drawing): TaskSource {
  return { size: drawing.size, at: (index) => taskOf(split, index, drawing) };
}

/** Draws until the sum falls to this split: a fifth of all sums, by hash, belong to the test split. */
function taskOf(split: Split, index: number, { seed, digits, allowed }: Drawing): Task {
  for (let attempt = 0; ; attempt++) {
    const key = rng(seed, "sums", split, index, attempt);
    const low = digits === 1 ? 2 : 10 ** (digits - 1);
    const draw = (counter: number): number => low + integer(key, 10 ** digits - low, counter);
    const operator = allowed[integer(key, allowed.length, 0)]!;
    const [x, y] = [draw(1), draw(2)];
    const [a, b] = operator === "-" && x < y ? [y, x] : [x, y];
    if ((hash32(`${a}${operator}${b}`) % 5 === 0) !== (split === "test")) continue;
    const prompt: Message[] = [{ role: "user", content: `What is ${a} ${operator} ${b}? Answer with the number only.` }];
    return { id: `sums-${split}-${index}`, prompt, data: { answer: operators[operator](a, b), kind: operator } };
  }
}
