/** Cross-entropy of given tokens: the loss of pre-training and supervised fine-tuning. */
import type { Loss } from "../../types.ts";
import * as o from "../../compute/tensor/ops.ts";

/** -sum(weight x logprob); the weights (made by loop/batch for the whole step) carry the reduction. */
export const crossEntropy: Loss = {
  key: "cross-entropy",
  build: (x) => ({ loss: o.neg(o.sum(o.mul(x.field("weight"), x.logprobs))), metrics: {} }),
};
