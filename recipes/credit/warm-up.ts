/**
 * Supervised dialogues in which the answers are drawn and not known: they teach what an answer looks like and leave which one is right
 * to reinforcement learning.
 */
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { integer, rng, uniform } from "../../src/random.ts";
import { lockOf } from "../../src/env/lock.ts";
import type { Env, Message } from "../../src/types.ts";

/** `count` dialogues; an answer is right with the chance `right` more than a guess has. */
export async function guessed(env: Env, { seed, count, right }: { seed: number; count: number; right: number }): Promise<Message[][]> {
  const source = env.tasks("train");
  const made: Message[][] = [];
  for (let i = 0; i < count; i++) {
    const task = source.at(source.size - 1 - (i % source.size));
    const lock = lockOf(task);
    let set = 0;
    const script = Array.from({ length: lock.right.length + lock.tries + 1 }, (_, turn): Message => {
      const key = rng(seed, "guess", i, turn);
      const known = uniform(key, 0) < right;
      const content = known ? (lock.right[set] ?? "1") : String(1 + integer(key, lock.choices, 1));
      if (content === lock.right[set]) set++;
      return { role: "assistant", content };
    });
    made.push([...(await playScripted(env, task, script)).messages]);
  }
  return made;
}
