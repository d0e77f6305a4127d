/**
 * Turn-PPO (Li et al. 2025, arXiv:2512.17008): PPO whose steps are turns. Gamma and lambda count turns, a turn's tokens share its
 * advantage, and the critic is asked where a turn begins. Gamma 0.99 and lambda 0.9 are the paper's best. Deviations: the ratio is
 * clipped by token as in PPO, not by turn, and KL is a term of the loss alone, because a turn has no token to be paid at.
 */
import { flag, real, whole } from "../config-fields.ts";
import { isTerminal, turnGae } from "../loop/advantage/turns.ts";
import { whitened } from "../loop/advantage/whiten.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { valueLoss } from "../loop/loss/value.ts";
import type { CreditContext, Scored } from "../types.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, klInLoss, reductions, samplesOf, stability, truncation } from "./settings.ts";

export const turnPpo = defineAlgorithm({
  name: "turn-ppo",
  paper: "arXiv:2512.17008",
  config: {
    ...samplesOf(1),
    gamma: real({ above: 0, max: 1 }, 0.99, "discount from a turn to the one before it"),
    lambda: real({ min: 0, max: 1 }, 0.9, "GAE: 1 gives Monte-Carlo returns, 0 one-step differences"),
    whitenAdvantages: flag(true, "whether advantages get mean 0 and deviation 1 over the step's tokens"),
    ...clipTo(0.2, 0.2),
    ...dualClip,
    ...klInLoss(0, "k3"),
    valueClip: real({ min: 0, max: 1e6 }, 0.2, "how far a value may move from its old one; 0 turns the clip off"),
    criticLearningRate: real({ above: 0, max: 1 }, 1e-4, "step size of the critic"),
    criticWarmupSteps: whole({ min: 0, max: 999_999 }, 0, "first steps in which the critic alone is trained"),
    criticEpochsPerBatch: whole({ min: 1, max: 64 }, 4, "optimiser steps of the critic on one batch"),
    epochsPerBatch: whole({ min: 1, max: 64 }, 4, "optimiser steps taken on one batch"),
    reduction: reductions("token-mean"),
    ...truncation,
    ...stability,
    ...correction,
  },
  refuse: refusals,
  build: (settings) =>
    policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      credit: (groups, context) => {
        const credits = groups.map(({ members }) => members.map((member) => turnCredit(member, context, settings)));
        return settings.whitenAdvantages ? whitened(credits) : credits;
      },
      learningRate: { full: 3e-6, lora: 3e-5 },
      critic: {
        loss: valueLoss(settings.valueClip),
        learningRate: settings.criticLearningRate,
        warmupSteps: settings.criticWarmupSteps,
        epochsPerBatch: settings.criticEpochsPerBatch,
      },
    }),
});

/** A cut episode is worth what the critic says of its last state, in place of its score: both would count the end twice. */
function turnCredit({ trajectory, verdict }: Scored, context: CreditContext, discounts: { gamma: number; lambda: number }) {
  if (verdict.type !== "scored") return null;
  const score = isTerminal(trajectory) ? verdict.score : 0;
  return turnGae(trajectory, { score, evidence: context.evidence(trajectory), ...discounts });
}
