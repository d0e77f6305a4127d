/**
 * What an operation must cost: floating-point operations of the matrix products (a multiplication and an addition each), and
 * bytes that must be read at least once. Elementwise work, attention scores and softmax are not counted, so a fraction of the
 * limit is never flattered.
 */
import type { Architecture } from "../src/compute/models/architecture.ts";
import { loraShapes, type LoraOptions } from "../src/compute/models/lora.ts";
import { parameterShapes } from "../src/compute/models/parameters.ts";

export interface Cost {
  readonly flops: number;
  readonly bytes: number;
}

interface Sizes {
  /** Weights of all layers' matrices, of the head, and of an adapter. */
  readonly layers: number;
  readonly head: number;
  readonly adapter: number;
}

export const plus = (...costs: readonly Cost[]): Cost => ({
  flops: costs.reduce((sum, { flops }) => sum + flops, 0),
  bytes: costs.reduce((sum, { bytes }) => sum + bytes, 0),
});

function sizesOf(a: Architecture, lora?: LoraOptions): Sizes {
  const product = (shape: readonly number[]): number => shape.reduce((x, y) => x * y, 1);
  const matrices = [...parameterShapes(a)].filter(([name, shape]) => name.startsWith("layers.") && shape.length === 2);
  const adapter = lora === undefined ? [] : [...loraShapes(a, lora).values()];
  return {
    layers: matrices.reduce((sum, [, shape]) => sum + product(shape), 0),
    head: a.vocabulary * a.hidden,
    adapter: adapter.reduce((sum, shape) => sum + product(shape), 0),
  };
}

/** `tokens` tokens, `heads` of which need logits. */
interface Pass {
  readonly tokens: number;
  readonly heads: number;
  readonly lora?: LoraOptions | undefined;
}

/** One pass forward. */
export function forwardCost(a: Architecture, { tokens, heads, lora }: Pass): Cost {
  const { layers, head, adapter } = sizesOf(a, lora);
  return { flops: 2 * (tokens * (layers + adapter) + heads * head), bytes: 4 * (layers + adapter + (heads > 0 ? head : 0)) };
}

/** Forward and backward: the frozen base needs one product backwards, what is trained needs two. */
export function trainCost(a: Architecture, { tokens, heads, lora }: Pass): Cost {
  const { layers, head, adapter } = sizesOf(a, lora);
  const base = lora === undefined ? 6 : 4;
  return { flops: tokens * (base * layers + 6 * adapter) + heads * base * head, bytes: (base / 2) * 4 * (layers + head) };
}

/** One token for each of `rows` sequences whose caches have `slots` slots. */
export function decodeCost(a: Architecture, { rows, slots, lora }: { rows: number; slots: number; lora?: LoraOptions | undefined }): Cost {
  const cache = rows * slots * 2 * a.layers * a.kvHeads * a.headDim * 4;
  return plus(forwardCost(a, { tokens: rows, heads: rows, lora }), { flops: 0, bytes: cache });
}
