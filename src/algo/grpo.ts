/**
 * GRPO (Shao et al. 2024, arXiv:2402.03300): reward minus the group's mean, clipped ratio, no critic. Defaults are those of TRL's
 * GRPOTrainer. Deviations: the deviation carries no epsilon (groups without variance are found by comparing rewards), and the KL
 * term is off by default.
 */
import * as o from "../compute/tensor/ops.ts";
import { flag, oneOf, real, whole } from "../config-fields.ts";
import { broadcastCredit } from "../loop/advantage/broadcast.ts";
import { groupAdvantages, groupScales, scoresOf } from "../loop/advantage/group.ts";
import { klEstimate, klEstimators, type KlEstimator } from "../loop/loss/kl.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import type { Loss } from "../types.ts";
import { defineAlgorithm } from "./define.ts";
import { reductions, sampledRates } from "./settings.ts";

export const grpo = defineAlgorithm({
  name: "grpo",
  paper: "arXiv:2402.03300",
  config: {
    groupSize: whole({ min: 2, max: 4096 }, 8, "samples of one task; group baseline needs >= 2 samples"),
    /** Ratios are clipped to [1 - clipLow, 1 + clipHigh]; DAPO's clip-higher is 0.28. */
    clipLow: real({ above: 0, max: 1 }, 0.2, "lower clip of the ratio"),
    clipHigh: real({ above: 0, max: 100 }, 0.2, "upper clip of the ratio"),
    /** Weight of KL(policy || reference) in the loss; 0 needs no reference pass. Others use 0.001 (verl, SkyRL). */
    klCoef: real({ min: 0, max: 100 }, 0, "weight of the KL term; 0 turns it off"),
    /** As a loss, k2 has the gradient of KL(policy || reference); k3 has that of the reverse; k1 has none in expectation. */
    klEstimator: oneOf(klEstimators, "k3", "estimator of the KL term"),
    reduction: reductions("token-mean"),
    /** "none" is Dr. GRPO; sample std divides by n - 1. */
    scale: oneOf(groupScales, "group-sample-std", "what centred rewards are divided by"),
    maskTruncated: flag(false, "whether cut completions are left out of the loss"),
    epochsPerBatch: whole({ min: 1, max: 64 }, 1, "optimiser steps taken on one batch"),
  },
  build: ({ groupSize, scale, klCoef, reduction, maskTruncated, epochsPerBatch, ...clip }) => ({
    groupSize,
    learningRate: sampledRates,
    needs: klCoef > 0 ? ["reference"] : [],
    reduction,
    maskTruncated,
    keepZero: klCoef > 0,
    epochsPerBatch,
    credit: (groups) =>
      groups.map(({ members }) => {
        const advantages_G = groupAdvantages(scoresOf(members.map(({ verdict }) => verdict)), scale);
        return members.map(({ trajectory }, i) => (advantages_G[i] === null ? null : broadcastCredit(trajectory, advantages_G[i]!)));
      }),
    loss: grpoLoss({ ...clip, klCoef }),
  }),
});

interface GrpoLossSettings {
  readonly clipLow: number;
  readonly clipHigh: number;
  readonly klCoef: number;
  readonly klEstimator: KlEstimator;
}

/** sum(weight x (surrogate + klCoef x KL)); metrics are means over the step's tokens. */
export function grpoLoss({ clipLow, clipHigh, klCoef, klEstimator }: GrpoLossSettings): Loss {
  return {
    key: `grpo/${clipLow}/${clipHigh}/${klCoef}/${klEstimator}`,
    build: (x) => {
      const old = x.field("old");
      const { loss, ratio, clipped } = clippedSurrogate(
        { logprobs: x.logprobs, old, advantages: x.field("advantage") },
        { low: clipLow, high: clipHigh },
      );
      const overTokens = (values: typeof loss): typeof loss => o.div(o.sum(values), x.scalar("tokens"));
      const metrics = {
        clipFraction: overTokens(clipped),
        ratioGap: overTokens(o.abs(o.sub(ratio, 1))),
        "kl/old": overTokens(klEstimate(old, x.logprobs, "k3")),
      };
      if (klCoef === 0) return { loss: o.sum(o.mul(x.field("weight"), loss)), metrics };
      const kl = klEstimate(x.logprobs, x.field("reference"), klEstimator);
      return {
        loss: o.sum(o.mul(x.field("weight"), o.add(loss, o.mul(kl, klCoef)))),
        metrics: { ...metrics, "kl/reference": overTokens(kl) },
      };
    },
  };
}
