/** Clip-Cov (arXiv:2505.22617): a few tokens whose log-prob and advantage move strongly together teach nothing in this step. */
import { rng, uniform } from "../../random.ts";
import type { Credit, CreditContext } from "../../types.ts";
import { policyLogprobs } from "./token-returns.ts";

interface ClipCovariance {
  /** Of the step's tokens, at least one token. */
  readonly fraction: number;
  readonly low: number;
  readonly high: number;
}

/**
 * Sets the advantage to 0 for a random share of the tokens whose covariance (log pi - mean)(A - mean), means over the step's tokens,
 * lies between `low` and `high`. The draw depends on the trajectory and the token alone.
 */
export function clipCovariance(
  credits_P_G: readonly (readonly (Credit | null)[])[],
  context: CreditContext,
  { fraction, low, high }: ClipCovariance,
): (Credit | null)[][] {
  const tokens = credits_P_G.flat().flatMap((credit) => (credit === null ? [] : tokensOf(credit, context)));
  const meanOf = (of: (token: (typeof tokens)[number]) => number): number =>
    tokens.reduce((sum, token) => sum + of(token), 0) / tokens.length;
  const logprob = meanOf((token) => token.logprob);
  const advantage = meanOf((token) => token.advantage);
  const eligible = tokens.filter((token) => {
    const covariance = (token.logprob - logprob) * (token.advantage - advantage);
    return covariance > low && covariance < high;
  });
  eligible.sort((a, b) => a.draw - b.draw);
  const clipped = new Map<Float32Array, number[]>();
  for (const { row, t } of eligible.slice(0, Math.max(1, Math.floor(fraction * tokens.length))))
    clipped.set(row, [...(clipped.get(row) ?? []), t]);
  const without = (row: Float32Array): Float32Array => row.map((value, t) => (clipped.get(row)?.includes(t) === true ? 0 : value));
  return credits_P_G.map((group) =>
    group.map((credit) => (credit === null ? null : { ...credit, advantages: credit.advantages.map(without) })),
  );
}

interface Token {
  readonly row: Float32Array;
  readonly t: number;
  readonly advantage: number;
  readonly logprob: number;
  readonly draw: number;
}

function tokensOf({ trajectory, advantages }: Credit, context: CreditContext): Token[] {
  const logprobs = policyLogprobs(trajectory, context.evidence(trajectory));
  return advantages.flatMap((row, r) => {
    const key = rng(0, "clip-cov", trajectory.id, r);
    return Array.from(row, (advantage, t) => ({ row, t, advantage, logprob: logprobs[r]![t]!, draw: uniform(key, t) }));
  });
}
