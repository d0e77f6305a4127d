/** The clipped surrogate of PPO and GRPO (arXiv:1707.06347, arXiv:2402.03300), per token. */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";

interface SurrogateInputs {
  /** [N] log-probs under the weights being trained. */
  readonly logprobs: Tensor;
  /** [N] log-probs when the tokens were sampled. */
  readonly old: Tensor;
  /** [N]. */
  readonly advantages: Tensor;
}

/** -min(r A, clip(r, 1 - low, 1 + high) A) with r = exp(logprobs - old); `clipped` is 1 where the clip took the gradient away. */
export function clippedSurrogate({ logprobs, old, advantages }: SurrogateInputs, clip: { readonly low: number; readonly high: number }): {
  readonly loss: Tensor;
  readonly ratio: Tensor;
  readonly clipped: Tensor;
} {
  const ratio = o.exp(o.sub(logprobs, old));
  const free = o.mul(ratio, advantages);
  const bounded = o.mul(o.clamp(ratio, 1 - clip.low, 1 + clip.high), advantages);
  return { loss: o.neg(o.min(free, bounded)), ratio, clipped: o.cast(o.less(bounded, free), "float32") };
}
