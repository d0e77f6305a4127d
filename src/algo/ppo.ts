/**
 * PPO (Schulman et al. 2017, arXiv:1707.06347) as RLHF uses it (Ziegler et al. 2019, arXiv:1909.08593): a critic, GAE over tokens with
 * the score at the last one, KL to the reference in the reward. Defaults are those of TRL's PPOTrainer. Deviations: the critic is an
 * adapter with its own optimiser (so there is no vf_coef); an episode cut by a limit is worth what the critic says of its last state
 * (TRL, verl: its score; `cutEpisodes`).
 */
import { flag, oneOf, real, whole } from "../config-fields.ts";
import { criticCredit } from "../loop/advantage/critic.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import { valueLoss } from "../loop/loss/value.ts";
import { adaptiveKl, joined } from "../loop/update/kl-controller.ts";
import { defineAlgorithm } from "./define.ts";
import { policyAlgorithm } from "./policy.ts";
import { refusals } from "./refusals.ts";
import { clipTo, correction, dualClip, klInLoss, klInReward, reductions, samplesOf, stability, truncation } from "./settings.ts";

const adaptive = { klTarget: 0.1, klHorizon: 10_000 };

export const ppo = defineAlgorithm({
  name: "ppo",
  paper: "arXiv:1707.06347",
  config: {
    ...samplesOf(1),
    ...clipTo(0.2, 0.2),
    ...dualClip,
    gamma: real({ above: 0, max: 1 }, 1, "discount from a token to the one before it"),
    lambda: real({ min: 0, max: 1 }, 0.95, "GAE: 1 gives Monte-Carlo returns, 0 one-step differences"),
    whitenAdvantages: flag(true, "whether advantages get mean 0 and deviation 1 over the step's tokens"),
    whitenRewards: flag(false, "whether token rewards get deviation 1 over the step's tokens"),
    cutEpisodes: oneOf(["bootstrap", "score"], "bootstrap", "what an episode cut by a limit ends with: the critic's value, or its score"),
    rewardClip: real({ min: 0, max: 1e6 }, 0, "scores are cut to this on both sides; 0 leaves them"),
    missingEosPenalty: real({ min: 0, max: 1e6 }, 0, "taken off the score of a completion that did not end by itself"),
    ...klInReward(0.05),
    ...klInLoss(0, "k3"),
    klControl: oneOf(["fixed", "adaptive"], "fixed", "whether klRewardCoef follows klTarget"),
    klTarget: real({ above: 0, max: 1e3 }, adaptive.klTarget, "wanted KL of a completion, nats a token"),
    klHorizon: real({ above: 0, max: 1e9 }, adaptive.klHorizon, "completions over which klRewardCoef follows"),
    valueClip: real({ min: 0, max: 1e6 }, 0.2, "how far a value may move from its old one; 0 turns the clip off"),
    /** verl's 1e-5 for all weights, ten times that for an adapter. */
    criticLearningRate: real({ above: 0, max: 1 }, 1e-4, "step size of the critic"),
    criticWarmupSteps: whole({ min: 0, max: 999_999 }, 0, "first steps in which the critic alone is trained"),
    criticEpochsPerBatch: whole({ min: 1, max: 64 }, 4, "optimiser steps of the critic on one batch"),
    epochsPerBatch: whole({ min: 1, max: 64 }, 4, "optimiser steps taken on one batch"),
    reduction: reductions("token-mean"),
    ...truncation,
    ...stability,
    ...correction,
  },
  refuse: (settings, defaults) => {
    const { klControl, klRewardCoef } = settings;
    const problems = refusals(settings, defaults);
    if (klControl === "adaptive" && klRewardCoef === 0)
      problems.push("algo.klControl and algo.klRewardCoef: no KL in the reward to control; give klRewardCoef or set klControl to fixed");
    for (const [key, value] of Object.entries(adaptive)) {
      if (klControl === "adaptive" || settings[key as keyof typeof adaptive] === value) continue;
      problems.push(`algo.${key} and algo.klControl: ${key} does nothing while klControl is fixed; make it adaptive or leave ${key} out`);
    }
    return problems;
  },
  build: (settings) => {
    const { klControl, klRewardCoef: initial, klTarget: target, klHorizon: horizon } = settings;
    const own = policyAlgorithm(settings, {
      surrogate: clippedSurrogate({ low: settings.clipLow, high: settings.clipHigh, dual: settings.dualClip }),
      credit: (groups, context) =>
        criticCredit(groups, context, { ...settings, klRewardCoef: context.coefficients["klRewardCoef"] ?? initial }),
      learningRate: { full: 3e-6, lora: 3e-5 },
      critic: {
        loss: valueLoss(settings.valueClip),
        learningRate: settings.criticLearningRate,
        warmupSteps: settings.criticWarmupSteps,
        epochsPerBatch: settings.criticEpochsPerBatch,
      },
    });
    if (klControl === "fixed") return own;
    const controllers = [...(own.controller === undefined ? [] : [own.controller]), adaptiveKl({ initial, target, horizon })];
    return { ...own, controller: joined(...controllers) };
  },
});
