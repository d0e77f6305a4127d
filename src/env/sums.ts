/**
 * Sums in plain words, with a calculator or without: the verifier reads one number, and a small model that does the sum in its head is
 * mostly wrong. Which operators and how many digits are options.
 */
import { ConfigError, expected } from "../errors.ts";
import { number } from "../loop/reward/verifiers/number.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import { hash32, integer, rng } from "../random.ts";
import type { Env, Message, Split, Task, TaskSource } from "../types.ts";
import { calculator } from "./calculator.ts";

const operators = {
  "+": (a: number, b: number) => a + b,
  "-": (a: number, b: number) => a - b,
  "*": (a: number, b: number) => a * b,
} as const;
type Operator = keyof typeof operators;

export interface SumsOptions {
  readonly seed?: number;
  /** Digits of the two operands, 1 to 4 each. */
  readonly digits?: readonly [number, number];
  readonly operators?: readonly Operator[];
  /** Whether a calculator may be called. */
  readonly calculator?: boolean;
  readonly sizes?: { readonly [S in Split]: number };
}

/** The sums environment. Reward: 1 if the answer's last number is the result, else 0. No sum is in both splits. */
export function sums({
  seed = 0,
  digits = [2, 2],
  operators: allowed = ["+", "-"],
  calculator: given = false,
  sizes = { train: 4_000, test: 500 },
}: SumsOptions = {}): Env {
  if (digits.length !== 2 || !digits.every((count) => Number.isInteger(count) && count >= 1 && count <= 4)) {
    throw new ConfigError(expected("env.digits", "two numbers from 1 to 4", JSON.stringify(digits)));
  }
  if (allowed.length === 0 || !allowed.every((operator) => Object.hasOwn(operators, operator))) {
    throw new ConfigError(expected("env.operators", 'a list of "+", "-", "*"', JSON.stringify(allowed)));
  }
  return defineEnv({
    name: "sums",
    tasks: (split) => tasks(split, { seed, digits, allowed, size: sizes[split] }),
    tools: given ? [calculator] : [],
    reward: number(),
    reference: (task) => (given ? [callFor(task), answerTo(task)] : [answerTo(task)]),
    maxTurns: given ? 3 : 1,
  });
}

function callFor({ data }: Task): Message {
  const call = { id: "call-1", name: calculator.spec.name, arguments: { expression: data["expression"]! } };
  return { role: "assistant", content: "", toolCalls: [call] };
}

function answerTo({ data }: Task): Message {
  return { role: "assistant", content: JSON.stringify(data["answer"]) };
}

interface Drawing {
  readonly seed: number;
  readonly digits: readonly [number, number];
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
    const draw = (counter: 1 | 2): number => {
      const low = digits[counter - 1] === 1 ? 2 : 10 ** (digits[counter - 1]! - 1);
      return low + integer(key, 10 ** digits[counter - 1]! - low, counter);
    };
    const operator = allowed[integer(key, allowed.length, 0)]!;
    const [x, y] = [draw(1), draw(2)];
    const [a, b] = operator === "-" && x < y ? [y, x] : [x, y];
    if ((hash32(`${a}${operator}${b}`) % 5 === 0) !== (split === "test")) continue;
    const prompt: Message[] = [{ role: "user", content: `What is ${a} ${operator} ${b}? Answer with the number only.` }];
    return { id: `sums-${split}-${index}`, prompt, data: { answer: operators[operator](a, b), expression: `${a}${operator}${b}` } };
  }
}
