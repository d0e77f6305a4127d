/** KL-Cov (arXiv:2505.22617): tokens whose log-prob and advantage move together most, which is what uses entropy up, are held back. */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { LossInputs } from "../../types.ts";
import { klEstimate } from "./kl.ts";
import type { TokenPart } from "./policy-loss.ts";

/**
 * coef x KL(old || policy) on tokens with (log pi - mean)(A - mean) > low; means over the tokens of the task's samples, which no
 * micro-batch separates. With one update on fresh samples the penalty is 0 and so is its gradient.
 */
export function covariancePenalty(coef: number, low: number): TokenPart {
  return {
    key: `kl-cov-${coef}-${low}`,
    build: (x) => {
      const covariance = o.mul(centred(o.stopGradient(x.logprobs), x), centred(x.field("advantage"), x));
      const chosen = o.cast(o.greater(covariance, low), "float32");
      const kl = klEstimate(x.field("old"), x.logprobs, "k3");
      return { value: o.mul(o.mul(chosen, kl), coef), measures: { klCovFraction: chosen } };
    },
  };
}

function centred(values: Tensor, x: LossInputs): Tensor {
  const total = (of: Tensor): Tensor => o.gatherRows(o.segmentSum(of, x.unit, x.units), x.unit);
  return o.sub(values, o.div(total(values), total(o.expand(o.constant(1), values.shape))));
}
