/**
 * Generalised advantage estimation (Schulman et al. 2015, arXiv:1506.02438) over the steps of one episode, whatever a step is: a
 * token or a turn. An episode that a limit cut is not terminal: what its last state is still worth comes in as `valueAfter`.
 */
import { PolicyError, expected } from "../../errors.ts";

interface GaeInputs {
  /** [T] reward of each step. */
  readonly rewards: ArrayLike<number>;
  /** [T] value of the state before each step. */
  readonly values: ArrayLike<number>;
  /** Value of the state after the last step; 0 if the episode ended there. */
  readonly valueAfter: number;
  readonly gamma: number;
  /** 1 gives Monte-Carlo returns, 0 one-step temporal differences. */
  readonly lambda: number;
}

/** A_t = d_t + gamma lambda A_{t+1} with d_t = r_t + gamma V_{t+1} - V_t, and returns A_t + V_t (the TD(lambda) targets); [T] each. */
export function gae({ rewards, values, valueAfter, gamma, lambda }: GaeInputs): { advantages: Float32Array; returns: Float32Array } {
  const { length } = rewards;
  if (values.length !== length) throw new PolicyError(expected("gae", `${length} values, one for each reward`, String(values.length)));
  const advantages = new Float32Array(length);
  const returns = new Float32Array(length);
  let ahead = 0;
  let next = valueAfter;
  for (let t = length - 1; t >= 0; t--) {
    ahead = rewards[t]! + gamma * next - values[t]! + gamma * lambda * ahead;
    advantages[t] = ahead;
    returns[t] = ahead + values[t]!;
    next = values[t]!;
  }
  return { advantages, returns };
}
