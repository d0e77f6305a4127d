/** Draws in a row from one counter-based key: the n-th draw is a function of the key and n alone. */
import { integer } from "../../random.ts";
import type { RandomKey } from "../../types.ts";

export interface Draw {
  /** A whole number from `low` to `high`, both included. */
  range(low: number, high: number): number;
  pick<T>(list: readonly [T, ...T[]] | readonly T[]): T;
  /** `count` different items in random order. */
  several<T>(list: readonly T[], count: number): T[];
  /** An index into `weights`, with those odds. */
  weighted(weights: readonly number[]): number;
}

export function draw(key: RandomKey): Draw {
  let counter = 0;
  const below = (bound: number): number => integer(key, bound, counter++);
  return {
    range: (low, high) => low + below(high - low + 1),
    pick: (list) => list[below(list.length)]!,
    several: (list, count) => {
      const rest = [...list];
      return Array.from({ length: Math.min(count, rest.length) }, () => rest.splice(below(rest.length), 1)[0]!);
    },
    weighted: (weights) => {
      const parts = 1_000_000;
      let left = (below(parts) / parts) * weights.reduce((sum, weight) => sum + weight, 0);
      const index = weights.findIndex((weight) => (left -= weight) < 0);
      return index < 0 ? weights.length - 1 : index;
    },
  };
}
