/** Baselines other than the group's own mean. Rewards that are all equal give 0 exactly; so does a reward with nothing to compare. */
import { RewardError, expected } from "../../errors.ts";
import { zeroVariance } from "./group.ts";
import type { PerMember } from "./outcome.ts";

const scoredOnly = (rewards: PerMember): number[] => rewards.filter((reward) => reward !== null);
const sumOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const zeros = (rewards: PerMember): (number | null)[] => rewards.map((reward) => (reward === null ? null : 0));

/** RLOO (arXiv:2402.14740): reward minus the mean of the other scored members. */
export function leaveOneOut(rewards_G: PerMember): (number | null)[] {
  if (zeroVariance(rewards_G)) return zeros(rewards_G);
  const scored = scoredOnly(rewards_G);
  const total = sumOf(scored);
  return rewards_G.map((reward) => (reward === null ? null : reward - (total - reward) / (scored.length - 1)));
}

/**
 * MaxRL (arXiv:2602.02710): (reward - mean) / mean, so that a task solved once in G samples weighs G times one that is always solved.
 * Rewards are at least 0: they stand for success.
 */
export function meanScaled(rewards_G: PerMember): (number | null)[] {
  const scored = scoredOnly(rewards_G);
  const negative = scored.find((reward) => reward < 0);
  if (negative !== undefined)
    throw new RewardError(
      expected("maxrl", "rewards of at least 0", String(negative), "shift or clip the reward, or use another algorithm"),
    );
  if (zeroVariance(rewards_G)) return zeros(rewards_G);
  const mean = sumOf(scored) / scored.length;
  return rewards_G.map((reward) => (reward === null ? null : (reward - mean) / mean));
}

/** REINFORCE with one baseline: reward minus the mean over all scored samples of the step, whatever their task. */
export function batchCentred(rewards_P_G: readonly PerMember[]): (number | null)[][] {
  const all = rewards_P_G.flat();
  if (zeroVariance(all)) return rewards_P_G.map(zeros);
  const scored = scoredOnly(all);
  const mean = sumOf(scored) / scored.length;
  return rewards_P_G.map((rewards_G) => rewards_G.map((reward) => (reward === null ? null : reward - mean)));
}

/** OPO (arXiv:2505.23585): reward minus the group's mean weighted by length, the baseline of least variance for summed log-probs. */
export function lengthWeighted(rewards_G: PerMember, lengths_G: readonly number[]): (number | null)[] {
  if (zeroVariance(rewards_G)) return zeros(rewards_G);
  let tokens = 0;
  let total = 0;
  rewards_G.forEach((reward, i) => {
    if (reward === null) return;
    tokens += lengths_G[i]!;
    total += lengths_G[i]! * reward;
  });
  return rewards_G.map((reward) => (reward === null ? null : reward - total / tokens));
}
