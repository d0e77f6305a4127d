/** Which tasks a step works on: each pass over the source is a permutation of its own, found from the step's number alone. */
import { ConfigError, expected } from "../../errors.ts";
import { permutation, rng } from "../../random.ts";
import type { Task, TaskSource } from "../../types.ts";

/**
 * Tasks of step `step` (1, 2, 3, ...): the next `count` of the endless sequence of permuted passes. No task is repeated before
 * all were used, none is dropped at the end of a pass, and a resumed run goes on where the sequence was. Streams have sequences of
 * their own.
 */
export function tasksOfStep(
  source: TaskSource,
  { seed, step, count, stream = "tasks" }: {
    readonly seed: number;
    readonly step: number;
    readonly count: number;
    readonly stream?: string;
  },
): Task[] {
  if (source.size < 1) throw new ConfigError(expected("tasks", "at least one", "none"));
  const orders = new Map<number, readonly number[]>();
  return Array.from({ length: count }, (_, i) => {
    const place = (step - 1) * count + i;
    const pass = Math.floor(place / source.size);
    const order = orders.get(pass) ?? permutation(rng(seed, stream, pass), source.size);
    orders.set(pass, order);
    return source.at(order[place % source.size]!);
  });
}
