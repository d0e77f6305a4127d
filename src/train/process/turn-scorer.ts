/** A process reward model's word on each turn: the sigmoid of its head's value where the turn has been seen whole. */
import { PolicyError, expected } from "../../errors.ts";
import type { Batch, Engine, TrainRow, Trajectory, Unit } from "../../types.ts";
import type { LabelledSteps } from "./label-steps.ts";

/** Where a turn is judged: after its own last token, or after the environment's answer to it (the state that the turn led to). */
type JudgedAt = "turn" | "reply";

interface ScorerOptions {
  /** The adapter with the scalar head. */
  readonly adapter: string;
  readonly at: JudgedAt;
}

interface ScoredBy {
  readonly policy: { readonly engine: Pick<Engine, "values"> };
  readonly signal?: AbortSignal;
}

/** One list of scores (0 to 1) a trajectory, one number a turn: what an algorithm that needs "turnScores" is told. */
export function turnScorer({ adapter, at }: ScorerOptions) {
  return async (trajectories: readonly Trajectory[], { policy, signal }: ScoredBy): Promise<number[][]> => {
    const rows_E = trajectories.map((trajectory) => judgedRows(trajectory, at));
    const values = await policy.engine.values(rows_E.flat(), { adapter, ...(signal === undefined ? {} : { signal }) });
    let next = 0;
    return rows_E.map((rows) => rows.flatMap(() => Array.from(values[next++]!, (value) => 1 / (1 + Math.exp(-value)))));
  };
}

/** The rows of a trajectory that have turns, with the positions at which the turns are judged; one position a turn, in order. */
function judgedRows({ id, rows }: Trajectory, at: JudgedAt): TrainRow[] {
  return rows.flatMap(({ spans }) => {
    const ids = spans.flatMap((span) => span.ids);
    const judged: number[] = [];
    let [end, temperature] = [0, 1];
    spans.forEach((span, s) => {
      end += span.ids.length;
      if (span.kind === "context") return;
      const following = spans[s + 1];
      const reply = at === "reply" && following?.kind === "context" ? following.ids.length : 0;
      judged.push(end + reply);
      temperature = span.temperature;
    });
    if (judged.length === 0) return [];
    if (judged.some((position, k) => position <= (judged[k - 1] ?? 0)))
      throw new PolicyError(expected(`trajectory ${id}`, "turns with tokens, each judged at a place of its own", judged.join(", ")));
    return [{ ids: Int32Array.from(ids), trained: Int32Array.from(judged), fields: {}, temperature }];
  });
}

/**
 * A batch for the loss `stepCrossEntropy` from labelled turns, token for token as they were sampled; one unit an episode, mean over
 * all labelled turns. Turns without a label are left out. Null if none has one.
 */
export function labelledBatch(labelled: readonly LabelledSteps[], at: JudgedAt): Batch | null {
  const count = labelled.reduce((sum, { labels }) => sum + labels.filter((label) => label !== null).length, 0);
  if (count === 0) return null;
  const units = labelled.map(({ trajectory, labels }): Unit => {
    let next = 0;
    const rows = judgedRows(trajectory, at).flatMap((row): TrainRow[] => {
      const own = labels.slice(next, (next += row.trained.length));
      const kept = own.flatMap((label, k) => (label === null ? [] : [{ label, position: row.trained[k]! }]));
      if (kept.length === 0) return [];
      const fields = {
        label: Float32Array.from(kept, ({ label }) => label),
        weight: new Float32Array(kept.length).fill(1 / count),
      };
      return [{ ...row, trained: Int32Array.from(kept, ({ position }) => position), fields }];
    });
    return { rows };
  });
  return { units: units.filter(({ rows }) => rows.length > 0), scalars: { tokens: count } };
}
