/** What all sampled algorithms without a critic share: from their settings to the loss, its parts and what they need. */
import { clipCovariance } from "../loop/advantage/covariance.ts";
import type { Correction } from "../loop/loss/correction.ts";
import { offPolicyMask, samplerCorrection } from "../loop/loss/correction.ts";
import { covariancePenalty } from "../loop/loss/covariance.ts";
import { entropyBonus } from "../loop/loss/entropy.ts";
import { klToReference, type KlEstimator } from "../loop/loss/kl.ts";
import { policyLoss, type TokenPart } from "../loop/loss/policy-loss.ts";
import type { Algorithm, Controller, Reduction } from "../types.ts";
import { sampledRates } from "./settings.ts";

/** Settings as the fields of settings.ts make them; what an algorithm does not have is off. */
export interface PolicySettings {
  readonly groupSize: number;
  readonly maskTruncated: boolean;
  readonly epochsPerBatch?: number;
  readonly reduction?: Reduction;
  readonly klCoef?: number;
  readonly klEstimator?: KlEstimator;
  readonly klRewardCoef?: number;
  readonly dualClip?: number;
  readonly entropyCoef: number;
  readonly entropyFloor: number;
  readonly offPolicyDelta: number;
  readonly clipCovFraction: number;
  readonly klCovCoef: number;
  readonly covLow: number;
  readonly covHigh: number;
  readonly correction?: "none" | Correction;
  readonly correctionCap?: number;
}

type Own = Pick<Algorithm, "credit"> & Partial<Algorithm> & { readonly surrogate: TokenPart };
type Built = Omit<Algorithm, "kind" | "name" | "paper" | "settings">;

/** The algorithm of these settings around its own surrogate and credit. */
export function policyAlgorithm(settings: PolicySettings, { surrogate, credit, needs = [], ...own }: Own): Built {
  const { groupSize, maskTruncated, epochsPerBatch = 1, reduction = "token-mean", clipCovFraction, covLow, covHigh } = settings;
  const { klCoef = 0, klRewardCoef = 0, correction = "none", entropyCoef, entropyFloor, klCovCoef } = settings;
  return {
    groupSize,
    learningRate: sampledRates,
    needs: [
      ...needs,
      ...(klCoef + klRewardCoef > 0 ? (["reference"] as const) : []),
      ...(correction === "none" ? [] : (["trainer"] as const)),
    ],
    reduction,
    maskTruncated,
    keepZero: klCoef + klRewardCoef > 0 || entropyCoef > 0 || klCovCoef > 0,
    epochsPerBatch,
    credit: (groups, context) => {
      const credits = credit(groups, context);
      return clipCovFraction === 0 ? credits : clipCovariance(credits, context, { fraction: clipCovFraction, low: covLow, high: covHigh });
    },
    loss: policyLoss({ surrogate, ...options(settings) }),
    ...(entropyFloor > 0 ? { controller: entropyController(entropyCoef, entropyFloor) } : {}),
    ...own,
  };
}

function options(settings: PolicySettings): { weights: TokenPart[]; terms: TokenPart[] } {
  const { klCoef = 0, klEstimator = "k1", klRewardCoef = 0, correction = "none", correctionCap = 1, offPolicyDelta } = settings;
  const { entropyCoef, entropyFloor, klCovCoef, covLow } = settings;
  const weights: TokenPart[] = [];
  const terms: TokenPart[] = [];
  if (correction !== "none") weights.push(samplerCorrection(correction, correctionCap));
  if (offPolicyDelta > 0) weights.push(offPolicyMask(offPolicyDelta, correction === "none" ? "old" : "sampler"));
  if (klCoef + klRewardCoef > 0) terms.push(klToReference(klCoef, klCoef > 0 ? klEstimator : "k1"));
  if (klCovCoef > 0) terms.push(covariancePenalty(klCovCoef, covLow));
  if (entropyCoef > 0) terms.push(entropyBonus(entropyFloor > 0 ? "scheduled" : entropyCoef));
  return { weights, terms };
}

/** The bonus of a step is given if the mean entropy of the step before was below the floor (as in TRL's adaptive entropy). */
function entropyController(coef: number, floor: number): Controller {
  return {
    initial: { entropyCoef: 0 },
    next: (coefficients, { metrics: { entropy } }) => (entropy === undefined ? coefficients : { entropyCoef: entropy < floor ? coef : 0 }),
  };
}
