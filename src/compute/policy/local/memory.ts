/** Estimates of memory, so that plans can be printed and budgets kept before anything is allocated. */
import type { Architecture } from "../../models/architecture.ts";
import { parameterShapes } from "../../models/parameters.ts";
import type { MicroBatch } from "./packing.ts";

/** Floats that one token leaves behind in one layer when residuals are kept. */
function floatsPerToken(a: Architecture, attended: number): number {
  const attention = a.heads * a.headDim * 2 + a.kvHeads * a.headDim * 2 + a.heads * attended;
  return 2 * a.hidden + attention + (a.mlp === "gated" ? 2 : 1) * a.intermediate;
}

/** Bytes of all layers' residuals of a micro-batch. */
export function residualBytes(a: Architecture, micro: MicroBatch): number {
  const rows = micro.slots.length * micro.length * floatsPerToken(a, micro.prefixLength + micro.length);
  const prefixes = micro.groups.length * micro.prefixLength * floatsPerToken(a, micro.prefixLength);
  return 4 * a.layers * (rows + prefixes);
}

export function parameterCount(a: Architecture): number {
  let count = 0;
  for (const shape of parameterShapes(a).values()) count += shape.reduce((x, y) => x * y, 1);
  return count;
}

/** Bytes of keys and values that one token takes in all layers. */
export function cacheBytesPerToken(a: Architecture): number {
  return 2 * a.layers * a.kvHeads * a.headDim * 4;
}
