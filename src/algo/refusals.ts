/** Combinations of the shared settings that make no sense, each with both keys and what to do. */
import type { PolicySettings } from "./policy.ts";

/** A key that does nothing unless the other one is on. */
const dependents = {
  klEstimator: "klCoef",
  entropyFloor: "entropyCoef",
  correctionCap: "correction",
  covHigh: "clipCovFraction",
  overlongPenalty: "overlongBuffer",
} as const;

type Values = Readonly<Record<string, unknown>>;
const isOff = (value: unknown): boolean => value === 0 || value === "none";

/** For `refuse` of an algorithm that is built by `policyAlgorithm`; `defaults` are the algorithm's own. */
export function refusals(settings: PolicySettings, defaults: object): string[] {
  const given = settings as unknown as Values;
  const problems: string[] = [];
  const { klCoef = 0, klRewardCoef = 0, dualClip = 0, clipCovFraction, klCovCoef, covLow, covHigh } = settings;
  if (klCoef > 0 && klRewardCoef > 0)
    problems.push(
      `algo.klCoef and algo.klRewardCoef: KL counts twice, as ${klCoef} in the loss and ${klRewardCoef} in the reward; set one to 0`,
    );
  if (dualClip > 0 && dualClip <= 1) problems.push(`algo.dualClip: expected above 1, or 0 to turn it off, got ${dualClip}`);
  if (clipCovFraction > 0 && klCovCoef > 0)
    problems.push("algo.clipCovFraction and algo.klCovCoef: both act on the same tokens, which Clip-Cov detaches; set one to 0");
  if (clipCovFraction > 0 && covLow >= covHigh)
    problems.push(`algo.covLow and algo.covHigh: no covariance is between ${covLow} and ${covHigh}; lower covLow or raise covHigh`);
  for (const [key, master] of Object.entries(dependents)) {
    if (given[key] === (defaults as Values)[key] || !isOff(given[master])) continue;
    problems.push(
      `algo.${key} and algo.${master}: ${key} does nothing while ${master} is ${String(given[master])}; set it, or leave ${key} out`,
    );
  }
  if (covLow !== (defaults as PolicySettings).covLow && clipCovFraction === 0 && klCovCoef === 0)
    problems.push("algo.covLow and algo.clipCovFraction: covLow does nothing without Clip-Cov or KL-Cov; set clipCovFraction or klCovCoef");
  return problems;
}
