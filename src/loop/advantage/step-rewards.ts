/** Rewards of steps where the environment gives none: from a process reward model's scores, or from the return itself. */

/**
 * What is made of scores s_1 .. s_T of an episode's steps:
 * "score": the scores themselves (Lightman et al. 2023, arXiv:2305.20050). A long episode collects more of them.
 * "difference": s_t - s_{t-1}, the scores as a potential (Ng et al. 1999), so that running in circles earns nothing; with
 * scores that are chances of success it is the step's own advantage (Setlur et al. 2024, arXiv:2410.08146).
 * "redistributed": the return, spread by the scores' increments (RUDDER, Arjona-Medina et al. 2019, arXiv:1806.07857).
 */
export const stepRewardForms = ["score", "difference", "redistributed"] as const;
export type StepRewardForm = (typeof stepRewardForms)[number];

/** s_t - s_{t-1} with s_0 = `before`: their sum is s_T - s_0, whatever lies between. */
function differences(scores_T: readonly number[], before: number): number[] {
  return scores_T.map((score, t) => score - (t === 0 ? before : scores_T[t - 1]!));
}

/**
 * Return redistribution: step t gets the increment g_t - g_{t-1} of a prediction of the return (g_0 = 0), and every step an equal
 * share of what the last prediction missed. Added in order the rewards are the return: to the last bit for a return of 0 or 1 and
 * predictions from 0 to 1, else within the rounding of the largest increment.
 */
export function redistributed(total: number, predictions_T: readonly number[]): number[] {
  const missed = (total - (predictions_T.at(-1) ?? 0)) / predictions_T.length;
  const rewards_T = differences(predictions_T, 0).map((increment) => increment + missed);
  // The last step takes what rounding lost.
  const others = rewards_T.slice(0, -1).reduce((a, b) => a + b, 0);
  return rewards_T.map((reward, t) => (t === rewards_T.length - 1 ? total - others : reward));
}

interface StepRewardContext {
  /** The score of the state before the first step, for differences. */
  readonly before: number;
  /** The grader's, of the whole episode, for redistribution. */
  readonly score: number;
}

/** Step rewards in the given form. */
export function stepRewards(scores_T: readonly number[], form: StepRewardForm, { before, score }: StepRewardContext): number[] {
  switch (form) {
    case "score":
      return [...scores_T];
    case "difference":
      return differences(scores_T, before);
    case "redistributed":
      return redistributed(score, scores_T);
  }
}
