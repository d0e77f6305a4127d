/**
 * GiGPO (Feng et al. 2025, arXiv:2505.10978): GRPO's comparison of a sample with its group, plus each turn beside the turns that began
 * in the same state. No critic, no further samples. Defaults are the paper's: gamma 0.95, both parts of weight 1. Deviations: a turn
 * alone in its state gets 0, the deviation carries no epsilon, states are equal only where they are the same, and turns of cut
 * episodes are compared with none, because what would have followed them is not known.
 */
import { oneOf, real } from "../config-fields.ts";
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { stateAdvantages, stateNames, statesOf, type StateName, type StepNumbers } from "../loop/advantage/states.ts";
import { isTerminal, plusTurns, returnsOf, turnRewards, turnSpans } from "../loop/advantage/turns.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import type { Scored } from "../types.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, klInLoss, reductions, scaling, stability, truncation } from "./settings.ts";

export const gigpo = defineAlgorithm({
  name: "gigpo",
  paper: "arXiv:2505.10978",
  config: {
    ...groupOf(8),
    gamma: real({ min: 0, max: 1 }, 0.95, "discount of what follows a turn, for comparing turns of one state"),
    stepWeight: real({ min: 0, max: 100 }, 1, "weight of a turn beside its state; a sample beside its group has weight 1"),
    state: oneOf(stateNames, "observation", "what makes states the same: the last observation, or all that was said before"),
    ...scaling,
    ...clipTo(0.2, 0.2),
    ...dualClip,
    ...klInLoss(0, "k3"),
    reduction: reductions("token-mean"),
    ...truncation,
    ...epochs,
    ...stability,
    ...correction,
  },
  refuse: (settings, defaults) => [
    ...refusals(settings, defaults),
    ...(["gamma", "state"] as const)
      .filter((key) => settings.stepWeight === 0 && settings[key] !== defaults[key])
      .map((key) => `algo.stepWeight and algo.${key}: ${key} does nothing while stepWeight is 0; raise it, or leave ${key} out`),
  ],
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      credit: (groups) => {
        const { scale, stepWeight } = settings;
        const outcomes = broadcastGroups(groups, rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, scale)));
        return outcomes.map((credits, g) => {
          const ofSteps_G_T = stateAdvantages(groups[g]!.members.map((member) => stepsOf(member, settings)), scale);
          return credits.map((own, i) => {
            if (own === null) return null;
            const turns_T = turnSpans(own.trajectory).map((_span, t) => stepWeight * (ofSteps_G_T[i]![t] ?? 0));
            return plusTurns(own, 1, turns_T);
          });
        });
      },
    }),
});

/** Each turn's state and discounted return; none for a sample that was cut or not scored, whose returns nobody knows. */
function stepsOf({ trajectory, verdict }: Scored, { gamma, state }: { gamma: number; state: StateName }): StepNumbers {
  if (verdict.type !== "scored" || !isTerminal(trajectory)) return { states_T: [], numbers_T: [] };
  const numbers_T = returnsOf(turnRewards(trajectory, verdict.score), { gamma, valueAfter: 0 });
  return { states_T: statesOf(trajectory, state), numbers_T };
}
