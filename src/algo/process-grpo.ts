/**
 * GRPO with process supervision (Shao et al. 2024, arXiv:2402.03300, section 4.1.3): a process reward model scores every turn, the
 * scores are normalised over the group's turns, and a turn's advantage is the sum of the normalised rewards from it on. With
 * `outcomeWeight` the verified outcome stands beside it, as in PRIME (Cui et al. 2025, arXiv:2502.01456), so that a fault of the model
 * can be outvoted. Defaults are the paper's. Deviation: its deviation carries no epsilon.
 */
import { oneOf, real } from "../config-fields.ts";
import { PolicyError, expected } from "../errors.ts";
import { groupAdvantages } from "../loop/advantage/group.ts";
import { broadcastGroups, rewardsOf } from "../loop/advantage/outcome.ts";
import { stateAdvantages, statesOf, type StepNumbers } from "../loop/advantage/states.ts";
import { stepRewardForms, stepRewards, type StepRewardForm } from "../loop/advantage/step-rewards.ts";
import { plusTurns, returnsOf, turnSpans } from "../loop/advantage/turns.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import type { CreditContext, Scored } from "../types.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, epochs, groupOf, klInLoss, reductions, scaling, stability, truncation } from "./settings.ts";

const baselines = ["group", "turn", "state"] as const;
type Baseline = (typeof baselines)[number];

export const processGrpo = defineAlgorithm({
  name: "process-grpo",
  paper: "arXiv:2402.03300",
  config: {
    ...groupOf(8),
    stepReward: oneOf(stepRewardForms, "score", "what is made of the process reward model's scores"),
    baseline: oneOf(baselines, "group", "with which steps of the group a step is compared: all, those of its turn, or of its state"),
    gamma: real({ min: 0, max: 1 }, 1, "discount of the step rewards that follow a turn; with differences it is what lambda is to GAE"),
    outcomeWeight: real({ min: 0, max: 100 }, 0, "weight of the sample's own score beside its group"),
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
    ...(settings.stepReward === "redistributed" && settings.outcomeWeight > 0
      ? [
          "algo.stepReward and algo.outcomeWeight: redistributed rewards add up to the outcome, which would count twice; " +
            "set outcomeWeight to 0",
        ]
      : []),
  ],
  build: (settings) =>
    policyAlgorithm(settings, {
      needs: ["turnScores"],
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      credit: (groups, context) => {
        const { scale, gamma, outcomeWeight } = settings;
        const outcomes = broadcastGroups(groups, rewardsOf(groups).map((rewards_G) => groupAdvantages(rewards_G, scale)));
        return outcomes.map((credits, g) => {
          const { members } = groups[g]!;
          const before = meanFirst(members, context);
          const rewards_G_T = stateAdvantages(members.map((member) => stepsOf(member, context, { ...settings, before })), scale);
          return credits.map((own, i) => own && plusTurns(own, outcomeWeight, returnsOf(rewards_G_T[i]!, { gamma, valueAfter: 0 })));
        });
      },
    }),
});

interface StepSettings {
  readonly stepReward: StepRewardForm;
  readonly baseline: Baseline;
  readonly before: number;
}

/** What the group's scores say of the state that all its samples began in: their mean after the first turn. */
function meanFirst(members: readonly Scored[], context: CreditContext): number {
  const first = members.flatMap(({ trajectory }) => context.evidence(trajectory).turnScores?.slice(0, 1) ?? []);
  return first.reduce((a, b) => a + b, 0) / Math.max(first.length, 1);
}

/** Each turn's reward and the steps it is compared with; none for a sample that was not scored. */
function stepsOf({ trajectory, verdict }: Scored, context: CreditContext, { stepReward, baseline, before }: StepSettings): StepNumbers {
  if (verdict.type !== "scored") return { states_T: [], numbers_T: [] };
  const { turnScores } = context.evidence(trajectory);
  const turns = turnSpans(trajectory).length;
  if (turnScores?.length !== turns) {
    const got = turnScores === undefined ? "none" : String(turnScores.length);
    throw new PolicyError(expected(`trajectory ${trajectory.id}`, `${turns} scores of a process reward model, one a turn`, got));
  }
  const numbers_T = stepRewards(turnScores, stepReward, { before, score: verdict.score });
  const placeOf = (t: number): string => (baseline === "turn" ? `${t}` : "");
  const states_T = baseline === "state" ? statesOf(trajectory, "observation") : numbers_T.map((_reward, t) => placeOf(t));
  return { states_T, numbers_T };
}
