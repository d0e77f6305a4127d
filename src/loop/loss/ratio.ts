/** Importance ratios between two sets of log-probs: of each token, or of a whole row. */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { LossInputs } from "../../types.ts";

/** A token's own ratio; GSPO's geometric mean over the row; the product over the row (RLOO in TRL). */
export type RatioLevel = "token" | "row-mean" | "row-product";

/** Log-ratios are held within this, so that no exponential overflows (verl, SkyRL). */
const largestLog = 20;

/** [N] sum over the row of each token. */
export function overRow(values: Tensor, x: LossInputs): Tensor {
  return o.gatherRows(o.segmentSum(values, x.row, x.rows), x.row);
}

/** [N] mean over the row of each token. */
export function rowMean(values: Tensor, x: LossInputs): Tensor {
  return o.div(overRow(values, x), overRow(o.expand(o.constant(1), values.shape), x));
}

/** [N] exp(logprobs - old). GSPO's is sg(s) exp(lp - sg(lp)): the value is the row's, the gradient reaches each token once. */
export function importanceRatio(x: LossInputs, level: RatioLevel): Tensor {
  const gap = o.sub(x.logprobs, x.field("old"));
  switch (level) {
    case "token":
      return bounded(gap);
    case "row-mean":
      return o.mul(bounded(o.stopGradient(rowMean(gap, x))), o.exp(o.sub(x.logprobs, o.stopGradient(x.logprobs))));
    case "row-product":
      return bounded(overRow(gap, x));
  }
}

/** exp(x), with x held within +-20. */
export function bounded(logRatio: Tensor): Tensor {
  return o.exp(o.clamp(logRatio, -largestLog, largestLog));
}
