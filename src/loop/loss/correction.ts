/** Factors of the surrogate for samples that another policy than the trained one drew: a stale or a quantised sampler. */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { TokenPart } from "./policy-loss.ts";
import { bounded, overRow, rowMean } from "./ratio.ts";

/** "truncate" caps the weight (TIS), "mask" drops what lies above the cap (MIS); of each token, or of the row's product. */
export const corrections = ["token-truncate", "token-mask", "sequence-truncate", "sequence-mask"] as const;
export type Correction = (typeof corrections)[number];

/**
 * w = exp(old - sampler), without a gradient: the trainer's log-probs when the batch was made against the sampler's. Read from the
 * fields "old" and "sampler". The sequence ratio is the product over the row (TRL, verl), not its geometric mean.
 */
export function samplerCorrection(correction: Correction, cap: number): TokenPart {
  return {
    key: `correction-${correction}-${cap}`,
    build: (x) => {
      const gap = o.sub(x.field("old"), x.field("sampler"));
      const ratio = bounded(correction.startsWith("token") ? gap : overRow(gap, x));
      const above = o.greater(ratio, cap);
      const value = correction.endsWith("mask") ? o.where(above, 0, ratio) : o.min(ratio, cap);
      return { value, measures: { "correction/weight": value, "correction/capped": o.cast(above, "float32") } };
    },
  };
}

/**
 * DeepSeek-V3.2's mask (arXiv:2512.02556): a row that has drifted by more than `delta` in mean log-prob, sampler minus policy, teaches
 * only with advantages of at least 0. `sampler` names the field with the log-probs that the row was sampled at.
 */
export function offPolicyMask(delta: number, sampler: "old" | "sampler"): TokenPart {
  return {
    key: `off-policy-mask-${delta}-${sampler}`,
    build: (x) => {
      const drift = rowMean(o.stopGradient(o.sub(x.field(sampler), x.logprobs)), x);
      const dropped = o.mul(flag(o.greater(drift, delta)), flag(o.less(x.field("advantage"), 0)));
      return { value: o.sub(1, dropped), measures: { offPolicyMasked: dropped } };
    },
  };
}

const flag = (condition: Tensor): Tensor => o.cast(condition, "float32");
