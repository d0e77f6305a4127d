/**
 * The step of TRPO (Schulman et al. 2015, arXiv:1502.05477): the direction F^-1 g by conjugate gradients, as far as the quadratic
 * model of the KL divergence allows, then a line search on the real surrogate and the real divergence. It works on a copy of the
 * policy (the adapter "trust"); the policy itself is written once, when a step was accepted, and is untouched if none was.
 */
import * as o from "../../compute/tensor/ops.ts";
import type { Batch, Directions, Engine, ForwardBackwardResult, Loss, TrustRegion } from "../../types.ts";

export interface TrustResult {
  /** The pass over the old weights. */
  readonly first: ForwardBackwardResult;
  readonly accepted: boolean;
  /** Of the step taken (0 if none was): mean of KL(old || new) over the batch's tokens, and by how much the loss fell. */
  readonly kl: number;
  readonly improvement: number;
  /** Halvings of the first step length. */
  readonly backtracks: number;
  readonly gradNorm: number;
}

interface TrustOptions {
  readonly loss: Loss;
  readonly region: TrustRegion;
  readonly signal?: AbortSignal;
}

/** The adapter that the search moves; added on opening with the policy's shape. */
export const trustAdapter = "trust";

/**
 * mean of (logprob - old)^2 / 2: its value and gradient are 0 at the old policy, and the second derivative there is the Fisher matrix
 * over the batch's tokens. `kl` estimates KL(old || new) without bias and is never below 0 (k3 on samples of the old policy).
 */
const squaredGap: Loss = {
  key: "trust-region/squared-gap",
  build: (x) => {
    const gap = o.sub(x.logprobs, x.field("old"));
    return { loss: o.div(o.sum(o.mul(o.mul(gap, gap), 0.5)), x.scalar("tokens")), metrics: {} };
  },
};

function withKl(loss: Loss): Loss {
  return {
    key: `trust-region/${loss.key}`,
    build: (x) => {
      const { loss: surrogate, metrics } = loss.build(x);
      const gap = o.sub(x.logprobs, x.field("old"));
      const kl = o.div(o.sum(o.sub(o.sub(o.exp(gap), 1), gap)), x.scalar("tokens"));
      return { loss: surrogate, metrics: { ...metrics, "trust/kl": kl } };
    },
  };
}

/** Takes one step. The batch has all of the step's rows, with the trainer's own log-probs in "old". */
export async function trustRegionStep(engine: Engine, batch: Batch, { loss, region, signal }: TrustOptions): Promise<TrustResult> {
  const on = { adapter: trustAdapter, ...(signal === undefined ? {} : { signal }) };
  const directions = engine.directions(trustAdapter);
  const measured = withKl(loss);
  const reset = (): void => engine.blendAdapter("policy", trustAdapter, 0);
  reset();
  const first = await engine.forwardBackward(batch, measured, on);
  const gradient = directions.takeGradient();
  const gradNorm = Math.sqrt(dot(gradient, gradient));
  const none = { first, accepted: false, kl: 0, improvement: 0, backtracks: 0, gradNorm };
  if (!(gradNorm > 0) || !Number.isFinite(gradNorm)) return none;
  const fisher = async (vector: Float32Array): Promise<Float32Array> =>
    fisherProduct(vector, { engine, batch, directions, reset, on, damping: region.damping });
  const step = await conjugateGradients(fisher, gradient, region.iterations);
  const curvature = dot(step, await fisher(step));
  if (!(curvature > 0)) return none;
  const longest = Math.sqrt((2 * region.maxKl) / curvature);
  for (let backtracks = 0; backtracks <= region.backtracks; backtracks++) {
    reset();
    directions.move(step, -longest * 0.5 ** backtracks);
    const tried = await engine.forwardBackward(batch, measured, on);
    directions.takeGradient();
    const kl = tried.metrics["trust/kl"]!;
    const improvement = first.loss - tried.loss;
    if (!(kl <= region.maxKl) || !(improvement > 0)) continue;
    engine.blendAdapter(trustAdapter, "policy", 0);
    return { ...none, accepted: true, kl, improvement, backtracks };
  }
  return none;
}

interface FisherOptions {
  readonly engine: Engine;
  readonly batch: Batch;
  readonly directions: Directions;
  readonly reset: () => void;
  readonly on: { readonly adapter: string; readonly signal?: AbortSignal };
  readonly damping: number;
}

/** Length of the finite difference in weight space: log-probs move far beyond float32 rounding, and little beside their curvature. */
const reach = 1e-2;

/**
 * (F + damping) v, with F v as the central difference of the gradient of `squaredGap` along v. Central: a constant error of "old"
 * (the sampler's rounding) falls out, and the error is of second order.
 */
export async function fisherProduct(vector: Float32Array, options: FisherOptions): Promise<Float32Array> {
  const { engine, batch, directions, reset, on, damping } = options;
  const norm = Math.sqrt(dot(vector, vector));
  if (norm === 0) return new Float32Array(vector.length);
  const scale = reach / norm;
  const gradientAt = async (distance: number): Promise<Float32Array> => {
    reset();
    directions.move(vector, distance);
    await engine.forwardBackward(batch, squaredGap, on);
    return directions.takeGradient();
  };
  const [ahead, behind] = [await gradientAt(scale), await gradientAt(-scale)];
  reset();
  return vector.map((v, i) => (ahead[i]! - behind[i]!) / (2 * scale) + damping * v);
}

/** Solves A x = b for a symmetric positive A that is known by its products; stops early when the residual is 1e-10 of b's square. */
export async function conjugateGradients(
  product: (vector: Float32Array) => Promise<Float32Array>,
  b: Float32Array,
  iterations: number,
): Promise<Float32Array> {
  const x = new Float32Array(b.length);
  const residual = b.slice();
  const direction = b.slice();
  let squared = dot(residual, residual);
  const enough = squared * 1e-10;
  for (let i = 0; i < iterations && squared > enough; i++) {
    const image = await product(direction);
    const curvature = dot(direction, image);
    if (!(curvature > 0)) break;
    const length = squared / curvature;
    addScaled(x, direction, length);
    addScaled(residual, image, -length);
    const next = dot(residual, residual);
    for (let j = 0; j < direction.length; j++) direction[j] = residual[j]! + (next / squared) * direction[j]!;
    squared = next;
  }
  return x;
}

function addScaled(target: Float32Array, vector: Float32Array, scale: number): void {
  for (let i = 0; i < target.length; i++) target[i] = target[i]! + scale * vector[i]!;
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
