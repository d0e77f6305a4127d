/**
 * Sampling inside the graph: only an id and its log-prob leave it. Inverse transform with one uniform number a row, in two
 * levels (block, then element), so that no running sum is taken over the whole vocabulary.
 */
import { mulDim, type Dim } from "../../tensor/dim.ts";
import type { Tensor } from "../../tensor/graph.ts";
import * as o from "../../tensor/ops.ts";

/** A block size near the square root that divides the vocabulary, or 128 with padding. */
export function blockSize(vocabulary: number): number {
  const root = Math.sqrt(vocabulary);
  for (let size = Math.ceil(root); size <= Math.min(vocabulary, 8 * root); size++) if (vocabulary % size === 0) return size;
  return 128;
}

/** Index of the first element of a running sum that is above `target`; kept inside by a target below the last sum. */
const crossing = (running: Tensor, target: Tensor): Tensor =>
  o.sum(o.cast(o.not(o.greater(running, target)), "int64"), { axes: [-1], keep: true });

/** The largest value below a positive number that float32 rounding cannot bring back up to it. */
const below = (x: Tensor): Tensor => o.mul(x, 1 - 2e-7);

export interface Draw {
  readonly greedy: boolean;
  /** Only ids whose element of the input `allowed` [B, V] is true are drawn. */
  readonly masked: boolean;
}

/** A logit that no model gives; its weight is 0 beside any other. */
const excluded = -1e30;

/**
 * logits [B, V], already divided by the temperature -> id [B, 1] int64 and its log-prob [B, 1] among all ids. Inputs: `uniform`
 * [B, 1] in [0, 1), `rowOffset` [B, 1] int64 = row times the number of blocks and, if `greedy`, `isGreedy` [B, 1] bool.
 */
export function sampleFromLogits(all: Tensor, { rows, greedy, masked }: Draw & { rows: Dim }): { id: Tensor; logprob: Tensor } {
  const vocabulary = all.shape[1] as number;
  const logits = masked ? o.where(o.input("allowed", [rows, vocabulary], "bool"), all, excluded) : all;
  const size = blockSize(vocabulary);
  const blocks = Math.ceil(vocabulary / size);
  const weightsOf = (of: Tensor): { top: Tensor; weights: Tensor } => {
    const top = o.maximum(of, { axes: [-1], keep: true });
    return { top, weights: o.exp(o.sub(of, top)) };
  };
  const { top, weights } = weightsOf(logits);
  const padded =
    blocks * size === vocabulary ? weights : o.concat([weights, o.expand(o.constant(0), [rows, blocks * size - vocabulary])], 1);
  const table = o.reshape(padded, [mulDim(rows, blocks), size]);
  const blockSums = o.reshape(o.sum(table, { axes: [-1] }), [rows, blocks]);
  const running = o.cumSum(blockSums);
  const total = o.slice(running, 1, { start: blocks - 1, end: blocks });
  const target = o.min(o.mul(o.input("uniform", [rows, 1]), total), below(total));
  const block = crossing(running, target);
  const before = o.sub(o.takeLast(running, block), o.takeLast(blockSums, block));
  const elements = o.reshape(o.gatherRows(table, o.add(o.input("rowOffset", [rows, 1], "int64"), block)), [rows, size]);
  const inner = o.cumSum(elements);
  const innerTotal = o.slice(inner, 1, { start: size - 1, end: size });
  // Rounding may put the rest below 0, where an element of weight 0 would be the first above it.
  const rest = o.max(o.sub(target, before), 0);
  const element = crossing(inner, o.min(rest, below(innerTotal)));
  const drawn = o.add(o.mul(block, o.constant(size, "int64")), element);
  const id = greedy ? o.where(o.input("isGreedy", [rows, 1], "bool"), o.argMax(logits), drawn) : drawn;
  // The maximum is taken out first: logits of thousands would leave no digits for the log of the sum.
  if (!masked) return { id, logprob: o.sub(o.sub(o.takeLast(logits, id), top), o.log(total)) };
  const whole = weightsOf(all);
  const sum = o.sum(whole.weights, { axes: [-1], keep: true });
  return { id, logprob: o.sub(o.sub(o.takeLast(all, id), whole.top), o.log(sum)) };
}
