/**
 * Supervised dialogues of locks for a model that is to be reinforced: first ones to learn to read from, on locks where signs mean
 * something else, then ones whose answers are drawn at random, so that nothing is known of the locks that count.
 */
import { lockOf } from "../../src/env/lock.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { integer, rng, uniform } from "../../src/random.ts";
import type { Env, Message } from "../../src/types.ts";

interface Drawn {
  readonly seed: number;
  readonly count: number;
  /** Share of answers that are known; the others are drawn. */
  readonly known: number;
}

/** `count` dialogues of the last train tasks, played through the environment. */
export async function dialogues(env: Env, { seed, count, known }: Drawn): Promise<Message[][]> {
  const source = env.tasks("train");
  const made: Message[][] = [];
  for (let i = 0; i < count; i++) {
    const task = source.at(source.size - 1 - (i % source.size));
    const { right, choices, tries } = lockOf(task);
    let set = 0;
    const script = Array.from({ length: right.length + tries }, (_, turn): Message => {
      const key = rng(seed, "answer", i, turn);
      const drawn = String(1 + integer(key, choices, 1));
      const content = uniform(key, 0) < known ? (right[set] ?? drawn) : drawn;
      if (content === right[set]) set++;
      return { role: "assistant", content };
    });
    made.push([...(await playScripted(env, task, script)).messages]);
  }
  return made;
}
