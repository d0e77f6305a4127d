/**
 * GRPO (Shao et al. 2024, arXiv:2402.03300): reward minus the group's mean, clipped ratio, no critic. Options give Dr. GRPO
 * (scale "none", reduction "constant"; arXiv:2503.20783) and DAPO's clip-higher and token mean (arXiv:2503.14476). Deviations:
 * the deviation carries no epsilon (groups without variance are found by comparing rewards), and the KL term is off by default.
 */
import { ConfigError, expected } from "../errors.ts";
import * as o from "../compute/tensor/ops.ts";
import { broadcastCredit } from "../loop/advantage/broadcast.ts";
import { groupAdvantages, scoresOf, type GroupScale } from "../loop/advantage/group.ts";
import { klEstimate, type KlEstimator } from "../loop/loss/kl.ts";
import { clippedSurrogate } from "../loop/loss/surrogate.ts";
import type { Algorithm, Loss, Reduction } from "../types.ts";

export interface GrpoOptions {
  readonly groupSize?: number;
  /** The ratio is clipped to [1 - clipLow, 1 + clipHigh]. */
  readonly clipLow?: number;
  readonly clipHigh?: number;
  /** Weight of KL(policy || reference) in the loss; 0 needs no reference. */
  readonly klCoef?: number;
  readonly klEstimator?: KlEstimator;
  readonly reduction?: Reduction;
  readonly scale?: GroupScale;
  readonly maskTruncated?: boolean;
  readonly epochsPerBatch?: number;
}

export function grpo({
  groupSize = 8, clipLow = 0.2, clipHigh = 0.2, klCoef = 0, klEstimator = "k3", reduction = "token-mean",
  scale = "group-sample-std", maskTruncated = false, epochsPerBatch = 1,
}: GrpoOptions = {}): Algorithm {
  if (!(groupSize >= 2))
    throw new ConfigError(expected("algo.groupSize", "at least 2 for grpo", String(groupSize), "a group baseline needs >= 2 samples"));
  return {
    name: "grpo",
    paper: "arXiv:2402.03300",
    groupSize,
    settings: { groupSize, clipLow, clipHigh, klCoef, klEstimator, reduction, scale, maskTruncated, epochsPerBatch },
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
    loss: grpoLoss({ clipLow, clipHigh, klCoef, klEstimator }),
  };
}

/** sum(weight x (surrogate + klCoef x KL)); metrics are means over the step's tokens. */
export function grpoLoss({
  clipLow,
  clipHigh,
  klCoef,
  klEstimator,
}: Required<Pick<GrpoOptions, "clipLow" | "clipHigh" | "klCoef" | "klEstimator">>): Loss {
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
