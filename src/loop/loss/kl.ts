/**
 * Estimators of KL(policy || reference) from the sampled tokens' log-probs (Schulman, "Approximating KL divergence", 2020), with
 * d = logprobs - reference. As a loss term their gradients differ: in expectation over the policy's own samples k1 has none,
 * k2 has the gradient of KL(policy || reference), k3 that of KL(reference || policy).
 */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { TokenPart } from "./policy-loss.ts";

export const klEstimators = ["k1", "k2", "k3"] as const;
export type KlEstimator = (typeof klEstimators)[number];

/** [N] per token: k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d. */
export function klEstimate(logprobs: Tensor, reference: Tensor, estimator: KlEstimator): Tensor {
  const d = o.sub(logprobs, reference);
  switch (estimator) {
    case "k1":
      return d;
    case "k2":
      return o.mul(o.mul(d, d), 0.5);
    case "k3":
      return o.add(o.sub(o.exp(o.neg(d)), 1), d);
  }
}

/**
 * coef x KL(policy || reference); with coef 0 it is reported and has no gradient. Reported are k3, which is never below 0, and k1,
 * the unbiased mean log-ratio that may be; which of them is trained on changes nothing of that.
 */
export function klToReference(coef: number, estimator: KlEstimator): TokenPart {
  return {
    key: `kl-${coef}-${estimator}`,
    build: (x) => {
      const kl = (as: KlEstimator): Tensor => klEstimate(x.logprobs, x.field("reference"), as);
      const value = coef === 0 ? o.constant(0) : o.mul(kl(estimator), coef);
      return { value, measures: { "kl/reference": kl("k3"), "kl/referenceK1": kl("k1") } };
    },
  };
}
