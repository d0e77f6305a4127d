/** When to stop without asking gold: the two reward models that the policy was not trained on no longer like its answers better. */
import type { Point } from "./measure.ts";

/** Evaluations in a row without a new best, after which a run is stopped. */
const patience = 2;

export interface Stop {
  /** The step whose policy is taken: the best one so far by the other models. */
  readonly taken: number;
  /** The step at which it was known; the last one if the run went through. */
  readonly known: number;
}

export function stopOf(curve: readonly Pick<Point, "step" | "others">[]): Stop {
  let best = 0;
  for (const [i, { others, step }] of curve.entries()) {
    if (others > curve[best]!.others) best = i;
    if (i - best >= patience) return { taken: curve[best]!.step, known: step };
  }
  return { taken: curve[best]!.step, known: curve.at(-1)!.step };
}
