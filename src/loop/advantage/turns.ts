/**
 * Trajectories as decision processes over turns: a step is one sampled turn, and its tokens share what is said of it. An episode that
 * a limit cut is never terminal: what is still to come is the critic's to say, and is never taken for 0.
 */
import { PolicyError, expected } from "../../errors.ts";
import type { Credit, Evidence, TokenValues, Trajectory } from "../../types.ts";
import { gae } from "./gae.ts";

/** Where the tokens of a turn stand among the sampled tokens of its row. */
interface TurnSpan {
  readonly row: number;
  readonly from: number;
  readonly length: number;
}

/** The sampled turns of all rows, in order. */
export function turnSpans({ rows }: Trajectory): TurnSpan[] {
  return rows.flatMap(({ spans }, row) => {
    let from = 0;
    return spans.flatMap((span): TurnSpan[] => {
      if (span.kind === "context") return [];
      from += span.ids.length;
      return [{ row, from: from - span.ids.length, length: span.ids.length }];
    });
  });
}

/** One number a turn -> the same number for each of its tokens. */
export function spreadOverTurns(trajectory: Trajectory, values_T: ArrayLike<number>): Float32Array[] {
  const spans_T = turnSpans(trajectory);
  if (values_T.length !== spans_T.length) {
    throw new PolicyError(expected(`trajectory ${trajectory.id}`, `${spans_T.length} numbers, one for each turn`, `${values_T.length}`));
  }
  return trajectory.rows.map((_, row) =>
    Float32Array.from(spans_T.flatMap((span, t) => (span.row === row ? new Array<number>(span.length).fill(values_T[t]!) : []))),
  );
}

/** The critic's value of the state in which each turn began. */
export function turnValues(trajectory: Trajectory, values: TokenValues): number[] {
  return turnSpans(trajectory).map(({ row, from }, t) => {
    const value = values[row]?.[from];
    if (value === undefined) throw new PolicyError(expected(`trajectory ${trajectory.id} turn ${t}`, "a value of its first token", "none"));
    return value;
  });
}

/** What the environment gave each turn, and the grader's score at the last one; never at what follows it. */
export function turnRewards(trajectory: Trajectory, score: number): number[] {
  const last = turnSpans(trajectory).length - 1;
  return Array.from({ length: last + 1 }, (_, t) => (trajectory.turns[t]?.reward ?? 0) + (t === last ? score : 0));
}

/** True for an episode that ended by itself; a limit is no end. */
export function isTerminal({ end }: Trajectory): boolean {
  switch (end.type) {
    case "done":
      return true;
    case "length":
    case "turnLimit":
    case "toolBudget":
    case "timeout":
    case "error":
      return false;
  }
}

/** What the state after the last turn is worth: 0 at an end, the critic's value at a cut. */
export function valueAfterTurns(trajectory: Trajectory, { valueAfter }: Evidence): number {
  if (isTerminal(trajectory)) return 0;
  if (valueAfter !== undefined) return valueAfter;
  const want = `the value of the state after its last turn (it was cut: ${trajectory.end.type})`;
  throw new PolicyError(expected(`trajectory ${trajectory.id}`, want, "none", "a cut episode is not worth 0"));
}

/** Monte-Carlo returns G_t = r_t + gamma G_{t+1}, with `valueAfter` behind the last step; [T]. */
export function returnsOf(rewards_T: readonly number[], { gamma, valueAfter }: { gamma: number; valueAfter: number }): number[] {
  const returns_T = new Array<number>(rewards_T.length);
  let ahead = valueAfter;
  for (let t = rewards_T.length - 1; t >= 0; t--) returns_T[t] = ahead = rewards_T[t]! + gamma * ahead;
  return returns_T;
}

interface TurnGae {
  readonly score: number;
  readonly evidence: Evidence;
  readonly gamma: number;
  /** 1 gives Monte-Carlo returns, 0 one-step temporal differences. */
  readonly lambda: number;
}

/**
 * Generalised advantage estimation with turns as steps: gamma and lambda discount turns, not tokens, so that a long answer is not
 * further from its reward than a short one (Turn-PPO, Li et al. 2025, arXiv:2512.17008). Returns are the TD(lambda)
 * targets. Throws if the critic's values are missing.
 */
export function turnGae(trajectory: Trajectory, { score, evidence, gamma, lambda }: TurnGae): Required<Credit> {
  if (evidence.values === undefined) throw new PolicyError(expected(`trajectory ${trajectory.id}`, "the critic's values", "none"));
  const values = turnValues(trajectory, evidence.values);
  const rewards = turnRewards(trajectory, score);
  const { advantages, returns } = gae({ rewards, values, valueAfter: valueAfterTurns(trajectory, evidence), gamma, lambda });
  const spread = (numbers: ArrayLike<number>): Float32Array[] => spreadOverTurns(trajectory, numbers);
  return { trajectory, advantages: spread(advantages), returns: spread(returns), values: spread(values) };
}

/** `weight` x the credit's advantages, plus one number for each turn. */
export function plusTurns({ trajectory, advantages }: Credit, weight: number, values_T: ArrayLike<number>): Credit {
  const added = spreadOverTurns(trajectory, values_T);
  return { trajectory, advantages: advantages.map((row, r) => row.map((value, i) => weight * value + added[r]![i]!)) };
}
