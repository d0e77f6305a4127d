/** Settings that several algorithms have, with one meaning and mostly one default. */
import { flag, oneOf, real, whole } from "../config-fields.ts";
import { groupScales } from "../loop/advantage/group.ts";
import { corrections } from "../loop/loss/correction.ts";
import { klEstimators, type KlEstimator } from "../loop/loss/kl.ts";
import type { LearningRates, Reduction } from "../types.ts";

/** TRL's and verl's 1e-6 for all weights, ten times that for an adapter. */
export const sampledRates: LearningRates = { full: 1e-6, lora: 1e-5 };

/** All tokens of the step, each completion alone and then completions, or the longest completion possible (Dr. GRPO). */
export function reductions(fallback: Reduction): ReturnType<typeof oneOf<Reduction>> {
  return oneOf<Reduction>(["token-mean", "sequence-mean", "constant"], fallback, "what the summed loss is divided by");
}

/** Samples of one task that are compared with each other. */
export const groupOf = (fallback: number): { readonly groupSize: ReturnType<typeof whole> } => ({
  groupSize: whole({ min: 2, max: 4096 }, fallback, "samples of one task; group baseline needs >= 2 samples"),
});

/** Samples of one task where the baseline is not the group's. */
export const samplesOf = (fallback: number): { readonly groupSize: ReturnType<typeof whole> } => ({
  groupSize: whole({ min: 1, max: 4096 }, fallback, "samples of one task"),
});

type RealField = ReturnType<typeof real>;

/** Ratios are clipped to [1 - clipLow, 1 + clipHigh]. */
export const clipTo = (low: number, high: number): { readonly clipLow: RealField; readonly clipHigh: RealField } => ({
  clipLow: real({ above: 0, max: 1 }, low, "lower clip of the ratio"),
  clipHigh: real({ above: 0, max: 100 }, high, "upper clip of the ratio"),
});

export const dualClip = { dualClip: real({ min: 0, max: 100 }, 0, "bound of the ratio at negative advantages, above 1; 0 turns it off") };

/** KL(policy || reference) as a term of the loss: as such k2 has its gradient, k3 that of the reverse, k1 none in expectation. */
export const klInLoss = (
  coef: number,
  estimator: KlEstimator,
): { readonly klCoef: RealField; readonly klEstimator: ReturnType<typeof oneOf<KlEstimator>> } => ({
  klCoef: real({ min: 0, max: 100 }, coef, "weight of the KL term; 0 turns it off"),
  klEstimator: oneOf(klEstimators, estimator, "estimator of the KL term"),
});

/** k1 of each token as part of the reward. */
export const klInReward = (coef: number): { readonly klRewardCoef: RealField } => ({
  klRewardCoef: real({ min: 0, max: 100 }, coef, "weight of the KL in the reward; 0 turns it off"),
});

export const truncation = { maskTruncated: flag(false, "whether cut completions are left out of the loss") };

/** For losses with a ratio, which more than one step on a batch needs. */
export const epochs = { epochsPerBatch: whole({ min: 1, max: 64 }, 1, "optimiser steps taken on one batch") };

export const scaling = { scale: oneOf(groupScales, "group-sample-std", "what centred rewards are divided by") };

/** What keeps a run from collapsing; all off by default. */
export const stability = {
  entropyCoef: real({ min: 0, max: 10 }, 0, "weight of the entropy bonus; 0 turns it off"),
  entropyFloor: real({ min: 0, max: 100 }, 0, "entropy below which the bonus is given; 0 gives it always"),
  offPolicyDelta: real({ min: 0, max: 100 }, 0, "drift above which a row with negative advantages is dropped; 0 turns it off"),
  clipCovFraction: real({ min: 0, max: 1 }, 0, "share of tokens that Clip-Cov detaches; 0 turns it off"),
  klCovCoef: real({ min: 0, max: 100 }, 0, "weight of KL-Cov's penalty; 0 turns it off"),
  covLow: real({ min: 0, max: 1e6 }, 1, "covariance above which Clip-Cov and KL-Cov act"),
  covHigh: real({ above: 0, max: 1e6 }, 5, "covariance up to which Clip-Cov acts"),
};

/** For samplers whose log-probs are not the trainer's: stale or quantised ones. */
export const correction = {
  correction: oneOf(["none", ...corrections], "none", "how samples of another policy are weighted"),
  correctionCap: real({ above: 0, max: 1e6 }, 2, "largest weight that is kept or given"),
};
