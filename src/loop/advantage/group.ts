/** Group baselines: what a sample's reward is worth beside the other samples of the same task. */
import type { Finite, Verdict } from "../../types.ts";

export const groupScales = ["none", "group-sample-std", "group-population-std"] as const;
export type GroupScale = (typeof groupScales)[number];

/** Rewards this close together are equal; decided on the rewards, never on a computed deviation, which rounding makes non-zero. */
const equalWithin = 1e-9;

/** The scores of a group's members; null where a member was not scored. */
export function scoresOf(verdicts: readonly Verdict[]): (Finite | null)[] {
  return verdicts.map((verdict) => (verdict.type === "scored" ? verdict.score : null));
}

/** True if the scored members carry no signal: fewer than two, or all equal. */
export function zeroVariance(scores_G: readonly (number | null)[]): boolean {
  const scored = scores_G.filter((score) => score !== null);
  return scored.length < 2 || Math.max(...scored) - Math.min(...scored) <= equalWithin;
}

/**
 * Reward minus the mean of the scored members, optionally divided by their standard deviation (sample: n - 1, population: n).
 * Zero for all where there is no variance; null for members that were not scored. GRPO (arXiv:2402.03300) scales by the sample
 * deviation, Dr. GRPO (arXiv:2503.20783) not at all.
 */
export function groupAdvantages(scores_G: readonly (number | null)[], scale: GroupScale): (number | null)[] {
  if (zeroVariance(scores_G)) return scores_G.map((score) => (score === null ? null : 0));
  const scored = scores_G.filter((score) => score !== null);
  const mean = scored.reduce((a, b) => a + b, 0) / scored.length;
  const squares = scored.reduce((sum, score) => sum + (score - mean) ** 2, 0);
  const divisor = deviation(scale, squares, scored.length);
  return scores_G.map((score) => (score === null ? null : (score - mean) / divisor));
}

/**
 * Centred in each group, divided by the sample deviation of all rewards of the step (TRL's scale "batch"; arXiv:2508.08221): hard and
 * easy groups keep their weight against each other.
 */
export function batchScaledAdvantages(scores_P_G: readonly (readonly (number | null)[])[]): (number | null)[][] {
  const all = scores_P_G.flat().filter((score) => score !== null);
  const mean = all.reduce((a, b) => a + b, 0) / all.length;
  const divisor = Math.sqrt(all.reduce((sum, score) => sum + (score - mean) ** 2, 0) / (all.length - 1));
  return scores_P_G.map((scores_G) =>
    groupAdvantages(scores_G, "none").map((advantage) => (advantage === null || advantage === 0 ? advantage : advantage / divisor)),
  );
}

function deviation(scale: GroupScale, squares: number, count: number): number {
  switch (scale) {
    case "none":
      return 1;
    case "group-sample-std":
      return Math.sqrt(squares / (count - 1));
    case "group-population-std":
      return Math.sqrt(squares / count);
  }
}
