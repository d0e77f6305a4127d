/**
 * The symbolic graph: a `Tensor` is one operation applied to other tensors, with a shape and an element type. Nothing is
 * computed here; gradients are in `gradients.ts`, lowering to ONNX in `lowering.ts`, running in `program.ts`.
 */
import type { Dim, Shape } from "./dim.ts";

export type DType = "float32" | "int64" | "bool";

export type UnaryOp = "neg" | "exp" | "log" | "sqrt" | "tanh" | "sigmoid" | "erf" | "abs" | "silu" | "gelu" | "not";
export type BinaryOp = "add" | "sub" | "mul" | "div" | "pow" | "max" | "min";
export type CompareOp = "less" | "greater" | "equal";

/** Attributes of every operation. Tables over `OpName` (gradients, lowering) are complete by type. */
type OpAttributes = { readonly [K in UnaryOp | BinaryOp | CompareOp]: Record<never, never> } & {
  readonly input: { readonly name: string };
  readonly constant: { readonly value: number };
  readonly where: Record<never, never>;
  readonly cast: { readonly to: DType };
  readonly stopGradient: Record<never, never>;
  /** alpha * a^T? b^T?, batched over leading dimensions with broadcasting. */
  readonly matmul: { readonly transA: boolean; readonly transB: boolean; readonly alpha: number };
  readonly reduceSum: { readonly axes: readonly number[]; readonly keep: boolean };
  readonly reduceMean: { readonly axes: readonly number[]; readonly keep: boolean };
  readonly reduceMax: { readonly axes: readonly number[]; readonly keep: boolean };
  readonly reshape: Record<never, never>;
  readonly transpose: { readonly permutation: readonly number[] };
  readonly slice: { readonly axis: number; readonly start: Dim; readonly end: Dim };
  readonly concat: { readonly axis: number };
  /** Broadcasts to the node's shape. */
  readonly expand: Record<never, never>;
  readonly softmax: Record<never, never>;
  readonly cumSum: Record<never, never>;
  readonly argMax: Record<never, never>;
  /** x / rms(x) * weight over the last axis. */
  readonly rmsNorm: { readonly epsilon: number };
  readonly layerNorm: { readonly epsilon: number };
  /** Rotary embedding, half-split form: (x, positions, cos, sin). */
  readonly rotary: Record<never, never>;
  /** Rows of a table by id: (table [V, D], ids) -> ids.shape + [D]. */
  readonly gatherRows: Record<never, never>;
  /** Sum of rows by id into a [V, D] table of zeros: (rows, ids, like). */
  readonly scatterRows: Record<never, never>;
  /** Rows of x [N, D] by index [M]; `inverse` [N] is where each row went in the output, M where it did not: (x, index, inverse). */
  readonly selectRows: Record<never, never>;
  /** One element a row of the last axis: (x [N, V], ids [N, 1]) -> [N, 1]. */
  readonly takeLast: Record<never, never>;
  /** base with values added at ids of the last axis: (base [N, V], ids [N, 1], values [N, 1]). */
  readonly addAtLast: Record<never, never>;
  /** Sum of x [N] by segment [N] into [R]: (x, segment, ones [R]). */
  readonly segmentSum: Record<never, never>;
};

export type OpName = keyof OpAttributes;

/** A node of the graph; `T` narrows with `op`. */
export interface Node<K extends OpName = OpName> {
  readonly op: K;
  readonly inputs: readonly Tensor[];
  readonly attributes: OpAttributes[K];
  readonly shape: Shape;
  readonly dtype: DType;
  /** Unique and increasing, so that sorting by id is a topological order. */
  readonly id: number;
}
export type Tensor = { [K in OpName]: Node<K> }[OpName];

let counter = 0;

export function node<K extends OpName>(
  op: K,
  inputs: readonly Tensor[],
  { attributes, shape, dtype = "float32" }: { attributes: OpAttributes[K]; shape: Shape; dtype?: DType },
): Tensor {
  return { op, inputs, attributes, shape, dtype, id: counter++ } as unknown as Tensor;
}

/** All nodes that `outputs` depend on, inputs before users; stops at nodes in `given`. */
export function topological(outputs: readonly Tensor[], given: ReadonlySet<Tensor> = new Set()): Tensor[] {
  const seen = new Set<Tensor>();
  const stack = [...outputs];
  while (stack.length > 0) {
    const next = stack.pop()!;
    if (seen.has(next)) continue;
    seen.add(next);
    if (!given.has(next)) stack.push(...next.inputs);
  }
  return [...seen].sort((a, b) => a.id - b.id);
}
