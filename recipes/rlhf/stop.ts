/**
 * When to stop without asking gold. By the reward models that the policy was not trained on: it costs nothing, and does not see an
 * error that all share. By fresh labels: the annotator compares each evaluation's answers with those before training.
 */
import type { Point } from "./measure.ts";

/** Evaluations in a row without a new best, after which a run is stopped. */
const patience = 2;

export interface Stop {
  /** The step whose policy is taken: the best one so far by `sign`. */
  readonly taken: number;
  /** The step at which it was known; the last one if the run went through. */
  readonly known: number;
}

export function stopOf<Sign extends "others" | "wins">(curve: readonly Pick<Point, "step" | Sign>[], sign: Sign): Stop {
  let best = 0;
  for (const [i, point] of curve.entries()) {
    if (point[sign] > curve[best]![sign]) best = i;
    if (i - best >= patience) return { taken: curve[best]!.step, known: point.step };
  }
  return { taken: curve[best]!.step, known: curve.at(-1)!.step };
}
