/** KL to the reference as part of the reward (k1 of each sampled token), in place of a term of the loss. */
import { PolicyError, expected } from "../../errors.ts";
import type { CreditContext, TokenValues, Trajectory } from "../../types.ts";
import { policyLogprobs } from "./token-returns.ts";

/** -coef (log pi - log pi_ref) for each sampled token, per row; undefined if `coef` is 0. */
export function klRewards(trajectory: Trajectory, context: CreditContext, coef: number): TokenValues | undefined {
  if (coef === 0) return undefined;
  const evidence = context.evidence(trajectory);
  const { reference } = evidence;
  if (reference === undefined)
    throw new PolicyError(expected(`trajectory ${trajectory.id}`, "log-probs under the reference for the KL in the reward", "none"));
  return policyLogprobs(trajectory, evidence).map((row, r) => row.map((logprob, t) => -coef * (logprob - reference[r]![t]!)));
}

/** The sum of `klRewards` over the episode; 0 if `coef` is 0. */
export function klReward(trajectory: Trajectory, context: CreditContext, coef: number): number {
  return (klRewards(trajectory, context, coef) ?? []).reduce((total, row) => row.reduce((sum, value) => sum + value, total), 0);
}
