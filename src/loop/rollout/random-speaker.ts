/** A policy that knows nothing: words and numbers of what it sees, and calls with arguments that fit the schemas. */
import { integer, rng } from "../../random.ts";
import type { Env, Json, JsonObject, Message, RandomKey } from "../../types.ts";
import type { Speaker } from "./scripted.ts";

/** Says something at random at every turn; what it says is a function of `seed`, the turn and what it sees. */
export function randomSpeaker(env: Pick<Env, "tools">, seed: number): Speaker {
  return (seen, { index }): Message => {
    const key = rng(seed, "random speaker", index);
    const words = wordsOf(seen);
    const tool = env.tools.length === 0 || integer(key, 4, 0) === 0 ? undefined : env.tools[integer(key, env.tools.length, 1)];
    if (tool === undefined) return { role: "assistant", content: phrase(words, key) };
    const { name, parameters } = tool.spec;
    const call = { id: `call-${index + 1}`, name, arguments: valueFor(parameters, { words, key, at: { next: 8 } }) as JsonObject };
    return { role: "assistant", content: "", toolCalls: [call] };
  };
}

/** Words of the last messages, and the digits. */
function wordsOf(seen: readonly Message[]): readonly string[] {
  const found = seen.slice(-3).flatMap(({ content }) => content.match(/[\p{L}\p{N}_.-]+/gu) ?? []);
  return [...new Set(found), ..."0123456789"];
}

function phrase(words: readonly string[], key: RandomKey): string {
  return Array.from({ length: 1 + integer(key, 3, 2) }, (_, i) => words[integer(key, words.length, 3 + i)]!).join(" ");
}

interface Drawing {
  readonly words: readonly string[];
  readonly key: RandomKey;
  readonly at: { next: number };
}

function valueFor(schema: Json | undefined, drawing: Drawing): Json {
  const { words, key, at } = drawing;
  const { type, enum: choices, const: only, anyOf, properties, items } = (schema ?? {}) as JsonObject;
  const pick = <T>(list: readonly T[]): T => list[integer(key, list.length, at.next++)]!;
  if (only !== undefined) return only;
  if (Array.isArray(choices)) return pick(choices as readonly Json[]);
  if (Array.isArray(anyOf)) return valueFor(pick(anyOf as readonly Json[]), drawing);
  switch (typeof type === "string" ? type : "") {
    case "object":
      return Object.fromEntries(Object.entries((properties ?? {}) as JsonObject).map(([name, each]) => [name, valueFor(each, drawing)]));
    case "array":
      return [valueFor(items, drawing)];
    case "integer":
    case "number":
      return integer(key, 10, at.next++);
    case "boolean":
      return integer(key, 2, at.next++) === 1;
    default:
      return pick(words);
  }
}
