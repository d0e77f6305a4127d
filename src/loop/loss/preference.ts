/**
 * Losses over pairs of answers and over labelled answers. A unit is one pair (rows of the chosen answer, rows of the rejected one) or
 * one labelled answer. Each trained token has "sign" (1 chosen or good, -1 rejected or bad), "weight" (the weights of a unit sum to its
 * share of the batch, those of a batch to 1), "inverseLength" (1 / tokens of its answer) and, where it is read, "reference".
 */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { Loss, LossInputs, LossOutputs } from "../../types.ts";

/** Sums over each unit's tokens, [U] each. */
interface UnitSums {
  /** Share of the batch; all units of a step sum to 1. */
  readonly weight: Tensor;
  readonly over: (values: Tensor) => Tensor;
  /** Sums over the tokens of one answer of the pair. */
  readonly chosen: (values: Tensor) => Tensor;
  readonly rejected: (values: Tensor) => Tensor;
  /** A number of the whole batch from one number a unit. */
  readonly mean: (perUnit: Tensor) => Tensor;
}

/** `sign` is the field that is 1 on the tokens of the chosen answer and -1 on those of the rejected one. */
export function unitSums(x: LossInputs, sign = "sign"): UnitSums {
  const over = (values: Tensor): Tensor => o.segmentSum(values, x.unit, x.units);
  const weight = over(x.field("weight"));
  const isSide = (side: 1 | -1): Tensor => o.mul(o.add(o.mul(x.field(sign), side), 1), 0.5);
  const part = (side: 1 | -1) => (values: Tensor): Tensor => over(o.mul(values, isSide(side)));
  return { weight, over, chosen: part(1), rejected: part(-1), mean: (perUnit) => o.sum(o.mul(weight, perUnit)) };
}

/** log sigmoid(x), exact in its gradient for every x; each branch is bounded where the other one is taken. */
export function logSigmoid(x: Tensor): Tensor {
  const above = o.neg(o.log(o.add(o.exp(o.neg(o.max(x, -1))), 1)));
  const below = o.sub(x, o.log(o.add(o.exp(o.min(x, 1)), 1)));
  return o.where(o.greater(x, 0), above, below);
}

/** -(1 - e) log sigmoid(x) - e log sigmoid(-x): labels that are wrong with probability e. */
export function smoothed(x: Tensor, labelSmoothing: number): Tensor {
  const right = o.neg(logSigmoid(x));
  if (labelSmoothing === 0) return right;
  return o.add(o.mul(right, 1 - labelSmoothing), o.mul(o.neg(logSigmoid(o.neg(x))), labelSmoothing));
}

/** log(1 - exp(x)) for x < 0; near 0 by the series of (1 - exp(x)) / -x, where the difference would lose its digits. */
export function log1mExp(x: Tensor): Tensor {
  const small = o.clamp(x, -0.5, -1e-12);
  const factorials = [5040, 720, 120, 24, 6, 2];
  const series = factorials.reduce<Tensor>((sum, factorial) => o.add(o.mul(sum, small), 1 / factorial), o.constant(1 / 40320));
  const near = o.add(o.log(o.neg(small)), o.log(o.add(o.mul(series, small), 1)));
  const far = o.log(o.sub(1, o.exp(o.min(x, -0.25))));
  return o.where(o.greater(x, -0.4), near, far);
}

/** Scores this close are one: at the start of a run a policy and its reference differ by rounding alone. */
export const rounding = 1e-5;

/** What every preference run logs: scores of both answers, their difference and how often the chosen one is ahead. */
export function rewardMetrics({ mean }: UnitSums, scores: { readonly chosen: Tensor; readonly rejected: Tensor }): Record<string, Tensor> {
  const margin = o.sub(scores.chosen, scores.rejected);
  return {
    "rewards/chosen": mean(scores.chosen),
    "rewards/rejected": mean(scores.rejected),
    "rewards/margin": mean(margin),
    "rewards/accuracy": mean(o.cast(o.greater(margin, rounding), "float32")),
  };
}

// -------------------------------------------------------------------------------------------------- with a reference

export const dpoLosses = ["sigmoid", "conservative", "robust", "hinge", "ipo"] as const;
export type DpoVariant = (typeof dpoLosses)[number];

interface DpoSettings {
  readonly variant: DpoVariant;
  /** Weight of the KL constraint; IPO's regularisation tau. */
  readonly beta: number;
  /** Probability that a label is wrong; read by `conservative` and `robust`. */
  readonly labelSmoothing: number;
  /** IPO: differences of mean log-probs a token, as TRL has it, or of sums, as the paper writes it. */
  readonly ipoLength: "mean" | "sum";
  /** Field that says which answer is preferred. */
  readonly sign: "sign" | "advantage";
}

/** Direct preference optimisation (arXiv:2305.18290) and its variants, with d = (lp_c - ref_c) - (lp_r - ref_r). */
export function dpoLoss(settings: DpoSettings): Loss {
  const { beta, ipoLength, sign, variant, labelSmoothing } = settings;
  return {
    key: `dpo/${variant}/${beta}/${labelSmoothing}/${ipoLength}/${sign}`,
    build: (x) => {
      const sums = unitSums(x, sign);
      const gap = o.sub(x.logprobs, x.field("reference"));
      const perToken = variant === "ipo" && ipoLength === "mean" ? o.mul(gap, x.field("inverseLength")) : gap;
      const delta = sums.over(o.mul(x.field(sign), perToken));
      const scores = { chosen: o.mul(sums.chosen(gap), beta), rejected: o.mul(sums.rejected(gap), beta) };
      const drift = o.sum(o.mul(x.field("weight"), o.abs(gap)));
      return { loss: sums.mean(dpoTerm(delta, settings)), metrics: { ...rewardMetrics(sums, scores), "reference/gap": drift } };
    },
  };
}

function dpoTerm(delta: Tensor, { variant, beta, labelSmoothing: e }: DpoSettings): Tensor {
  const scaled = o.mul(delta, beta);
  switch (variant) {
    case "sigmoid":
      return o.neg(logSigmoid(scaled));
    case "conservative":
      return smoothed(scaled, e);
    case "robust":
      return o.div(o.sub(o.mul(logSigmoid(o.neg(scaled)), e), o.mul(logSigmoid(scaled), 1 - e)), 1 - 2 * e);
    case "hinge":
      return o.relu(o.sub(1, scaled));
    case "ipo": {
      const miss = o.sub(delta, 1 / (2 * beta));
      return o.mul(miss, miss);
    }
  }
}

interface KtoSettings {
  readonly beta: number;
  readonly desirableWeight: number;
  readonly undesirableWeight: number;
}

/**
 * Kahneman-Tversky optimisation (arXiv:2402.01306): a unit is one labelled answer. The scalar "klBaseline" is the policy's KL from
 * its reference on mismatched answers, at least 0 and without a gradient.
 */
export function ktoLoss({ beta, desirableWeight, undesirableWeight }: KtoSettings): Loss {
  return {
    key: `kto/${beta}/${desirableWeight}/${undesirableWeight}`,
    build: (x) => {
      const sums = unitSums(x);
      const gap = o.sub(x.logprobs, x.field("reference"));
      // One answer a unit: its own sign, and the sum over its tokens.
      const sign = sums.over(o.mul(x.field("sign"), x.field("inverseLength")));
      const good = o.greater(sign, 0);
      const ratio = sums.over(gap);
      const ahead = o.mul(o.sub(ratio, x.scalar("klBaseline")), sign);
      const term = o.sub(1, o.sigmoid(o.mul(ahead, beta)));
      const loss = sums.mean(o.mul(term, o.where(good, desirableWeight, undesirableWeight)));
      return { loss, metrics: ktoMetrics(x, sums, { good, reward: o.mul(ratio, beta), gap, ahead }) };
    },
  };
}

interface KtoParts {
  readonly good: Tensor;
  readonly reward: Tensor;
  readonly gap: Tensor;
  readonly ahead: Tensor;
}

/** Rewards are means over the good and over the bad answers, whose shares of the batch come in as scalars. */
function ktoMetrics(x: LossInputs, { mean, weight }: UnitSums, { good, reward, gap, ahead }: KtoParts): LossOutputs["metrics"] {
  const share = (rewards: Tensor): Tensor => o.sum(o.mul(weight, rewards));
  const chosen = o.div(share(o.where(good, reward, 0)), x.scalar("goodShare"));
  const rejected = o.div(share(o.where(good, 0, reward)), x.scalar("badShare"));
  return {
    "rewards/chosen": chosen,
    "rewards/rejected": rejected,
    "rewards/margin": o.sub(chosen, rejected),
    "rewards/accuracy": mean(o.cast(o.greater(ahead, rounding), "float32")),
    "reference/gap": o.sum(o.mul(x.field("weight"), o.abs(gap))),
  };
}

// ----------------------------------------------------------------------------------------------- without a reference

/** Mean log-prob a token of both answers, and minus the log-prob of the chosen ones over all their tokens of the step. */
function lengthAveraged(x: LossInputs, sums: UnitSums): { chosen: Tensor; rejected: Tensor; likelihood: Tensor } {
  const mean = o.mul(x.logprobs, x.field("inverseLength"));
  const likelihood = o.neg(o.div(o.sum(sums.chosen(x.logprobs)), x.scalar("chosenTokens")));
  return { chosen: sums.chosen(mean), rejected: sums.rejected(mean), likelihood };
}

/** Odds ratio preference optimisation (arXiv:2403.07691): likelihood of the chosen answer and beta times the log odds ratio. */
export function orpoLoss(beta: number): Loss {
  return {
    key: `orpo/${beta}`,
    build: (x) => {
      const sums = unitSums(x);
      const { chosen, rejected, likelihood } = lengthAveraged(x, sums);
      const odds = o.sub(o.sub(chosen, rejected), o.sub(log1mExp(chosen), log1mExp(rejected)));
      const ratio = sums.mean(o.neg(logSigmoid(odds)));
      return {
        loss: o.add(likelihood, o.mul(ratio, beta)),
        metrics: {
          ...rewardMetrics(sums, { chosen: o.mul(chosen, beta), rejected: o.mul(rejected, beta) }),
          "loss/likelihood": likelihood,
          "loss/oddsRatio": ratio,
        },
      };
    },
  };
}

interface SimpoSettings {
  readonly beta: number;
  /** Margin by which the chosen answer's reward has to be ahead. */
  readonly gamma: number;
  readonly labelSmoothing: number;
  /** Weight of the chosen answers' likelihood (CPO-SimPO); 0 turns it off. */
  readonly likelihoodWeight: number;
}

/** SimPO (arXiv:2405.14734): the reward of an answer is beta times its mean log-prob a token; no reference. */
export function simpoLoss({ beta, gamma, labelSmoothing, likelihoodWeight }: SimpoSettings): Loss {
  return {
    key: `simpo/${beta}/${gamma}/${labelSmoothing}/${likelihoodWeight}`,
    build: (x) => {
      const sums = unitSums(x);
      const { chosen, rejected, likelihood } = lengthAveraged(x, sums);
      const scores = { chosen: o.mul(chosen, beta), rejected: o.mul(rejected, beta) };
      const preference = sums.mean(smoothed(o.sub(o.sub(scores.chosen, scores.rejected), gamma), labelSmoothing));
      const metrics = { ...rewardMetrics(sums, scores), "loss/likelihood": likelihood };
      return { loss: likelihoodWeight === 0 ? preference : o.add(preference, o.mul(likelihood, likelihoodWeight)), metrics };
    },
  };
}
