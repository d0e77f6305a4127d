/** What stands for the policy gradient in a loss, per token; each minimised. */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { TokenPart } from "./policy-loss.ts";
import { importanceRatio, type RatioLevel } from "./ratio.ts";

/** Ratios are held to [1 - low, 1 + high]. */
interface Clip {
  readonly low: number;
  readonly high: number;
}

const asFloat = (condition: Tensor): Tensor => o.cast(condition, "float32");
const isPositive = (advantages: Tensor): Tensor => asFloat(o.greater(advantages, 0));
const isNegative = (advantages: Tensor): Tensor => asFloat(o.less(advantages, 0));

/** -A log pi: the plain policy gradient (Williams 1992), for samples of the current policy. */
export const policyGradient: TokenPart = {
  key: "policy-gradient",
  build: (x) => ({ value: o.neg(o.mul(x.field("advantage"), x.logprobs)) }),
};

/**
 * -min(r A, clip(r) A) of PPO and GRPO (arXiv:1707.06347, arXiv:2402.03300); `clipFraction` is the share of tokens whose gradient
 * the clip took away. `dual` > 1 also bounds it by -dual A where A < 0 (dual clip, arXiv:1912.09729); 0 turns that off.
 */
export function clippedSurrogate({
  level = "token",
  low,
  high,
  dual = 0,
}: Clip & { readonly level?: RatioLevel; readonly dual?: number }): TokenPart {
  return {
    key: `clipped-${level}-${low}-${high}-${dual}`,
    build: (x) => {
      const advantages = x.field("advantage");
      const ratio = importanceRatio(x, level);
      const free = o.mul(ratio, advantages);
      const held = o.mul(o.clamp(ratio, 1 - low, 1 + high), advantages);
      const loss = o.neg(o.min(free, held));
      const clipped = asFloat(o.less(held, free));
      if (dual === 0) return { value: loss, measures: { clipFraction: clipped } };
      const most = o.mul(advantages, -dual);
      const cut = o.mul(isNegative(advantages), asFloat(o.greater(loss, most)));
      return { value: o.where(o.less(advantages, 0), o.min(loss, most), loss), measures: { clipFraction: o.max(clipped, cut) } };
    },
  };
}

/** CISPO (arXiv:2506.13585): -sg(clip(r)) A log pi. A clipped token keeps a gradient, of bounded weight. */
export function clippedWeight({ low, high }: Clip): TokenPart {
  return {
    key: `clipped-weight-${low}-${high}`,
    build: (x) => {
      const ratio = o.stopGradient(importanceRatio(x, "token"));
      const weight = o.clamp(ratio, 1 - low, 1 + high);
      const clipped = o.sub(1, asFloat(o.equal(weight, ratio)));
      return { value: o.neg(o.mul(o.mul(weight, x.field("advantage")), x.logprobs)), measures: { clipFraction: clipped } };
    },
  };
}

/**
 * DPPO (arXiv:2602.04879, its binary total variation): -r A, without the tokens whose probability has already moved further than
 * allowed in the direction of A: up by more than `high`, or down by more than `low`.
 */
export function divergenceMasked({ low, high }: Clip): TokenPart {
  return {
    key: `divergence-${low}-${high}`,
    build: (x) => {
      const advantages = x.field("advantage");
      const moved = o.stopGradient(o.sub(o.exp(x.logprobs), o.exp(x.field("old"))));
      const up = o.mul(isPositive(advantages), asFloat(o.greater(moved, high)));
      const down = o.mul(isNegative(advantages), asFloat(o.less(moved, -low)));
      const dropped = o.add(up, down);
      const value = o.neg(o.mul(o.mul(importanceRatio(x, "token"), advantages), o.sub(1, dropped)));
      return { value, measures: { clipFraction: dropped } };
    },
  };
}
