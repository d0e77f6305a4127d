/**
 * The task: a fact is given and asked for; the answer should say it, briefly and politely. The gold
 * score is a function of the text. It labels pairs (through a noisy annotator) and it judges held-out answers; no training sees it.
 */
import { draw } from "../../src/env/desk/draw.ts";
import { scored } from "../../src/errors.ts";
import { defineEnv } from "../../src/loop/rollout/tool-env.ts";
import { rng } from "../../src/random.ts";
import type { Env, JsonObject, Message, Split, Task, TaskSource } from "../../src/types.ts";

export interface Request {
  /** Every field that is shown, and its value. */
  readonly facts: Readonly<Record<string, string>>;
  readonly asked: readonly string[];
}

export interface Gold {
  /** 0.8 facts + 0.2 polite - 0.4 wrong - 0.1 useless - 0.2 repeated, within -1 and 1; at most 0 if the request is repeated. */
  readonly score: number;
  /** Share of the asked facts that are there. */
  readonly facts: number;
  /** 1 if it greets or thanks. */
  readonly polite: number;
  /** Sentences: with a value that is not the shown one; that nobody asked for; that were there before. */
  readonly wrong: number;
  readonly useless: number;
  readonly repeated: number;
}

const request = "Tell me";
const courtesies: readonly string[] = ["Hello.", "Thank you."];
const sizes: { readonly [S in Split]: number } = { train: 4_000, test: 500 };

export const sentencesOf = (text: string): string[] => text.split(/(?<=[.!?])\s+/).map((part) => part.trim()).filter((part) => part !== "");

/** What the answer is worth, by its sentences; `facts` may hold more than is asked for. */
export function gold(answer: string, { facts, asked }: Request): Gold {
  const sentences = sentencesOf(answer);
  const distinct = [...new Set(sentences)];
  const said = distinct.map((sentence) => /^The (\w+) is (\S+)\.$/.exec(sentence));
  const told = said.flatMap((match) => (match !== null && facts[match[1]!] === match[2] ? [match[1]!] : []));
  const wrong = said.filter((match) => match !== null && facts[match[1]!] !== match[2]).length;
  const right = told.filter((field) => asked.includes(field)).length;
  const asksBack = answer.includes(request);
  const courteous = distinct.filter((sentence) => courtesies.includes(sentence)).length;
  const useless = distinct.length - right - wrong - courteous;
  const repeated = sentences.length - distinct.length;
  const polite = courteous > 0 ? 1 : 0;
  const sum = (0.8 * right) / asked.length + 0.2 * polite - 0.4 * wrong - 0.1 * useless - 0.2 * repeated;
  return { score: Math.max(-1, Math.min(asksBack ? 0 : 1, sum)), facts: right / asked.length, polite, wrong, useless, repeated };
}

export const requestOf = (task: Task): Request => task.data as unknown as Request;

const fields = ["price", "stock", "desk", "shelf"] as const;

/** One of the four fields with a new value, which is asked for: a million parameters do not learn to choose among several so soon. */
function requestAt(split: Split, index: number): Request {
  const random = draw(rng(0, "helpful", split, index));
  const field = random.pick(fields);
  const value = field === "shelf" ? `${random.pick("ABCDEFGH".split(""))}${random.range(1, 9)}` : String(random.range(11, 98));
  return { facts: { [field]: value }, asked: [field] };
}

export function promptOf({ facts, asked }: Request): Message[] {
  const record = Object.entries(facts).map(([field, value]) => `The ${field} is ${value}.`);
  const wanted = asked.map((field) => `the ${field}`).join(" and ");
  return [{ role: "user", content: `${record.join(" ")} ${request} ${wanted}.` }];
}

function tasks(split: Split): TaskSource {
  return {
    size: sizes[split],
    at(index) {
      const request = requestAt(split, index);
      return { id: `helpful-${split}-${index}`, prompt: promptOf(request), data: request as unknown as JsonObject };
    },
  };
}

/** The answer that scores 1. */
function best({ facts, asked }: Request): string {
  return [...asked.map((field) => `The ${field} is ${facts[field]!}.`), "Thank you."].join(" ");
}

/** Its reward is the gold score, and evaluates alone. */
export const helpful: Env = defineEnv({
  name: "helpful",
  tasks,
  maxTurns: 1,
  reward: ({ task, messages }) => {
    const { score, ...parts } = gold(messages.at(-1)!.content, requestOf(task));
    return scored(score, "gold", parts);
  },
  reference: (task) => [{ role: "assistant", content: best(requestOf(task)) }],
});
