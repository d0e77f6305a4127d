/**
 * The decoder as functions over symbolic tensors: embed, block, head. The same block serves prefill, decoding and training:
 * it attends to keys and values that exist already (a cache, or a prompt shared by a group) and to its own, with one softmax.
 */
import { dim, mulDim, type Dim } from "../tensor/dim.ts";
import type { Tensor } from "../tensor/graph.ts";
import * as o from "../tensor/ops.ts";
import type { Architecture } from "./architecture.ts";
import { scalarHeadName } from "./scalar-head.ts";

/** Looks a parameter up; undefined where the architecture or the adapter has none. */
export type Weights = (name: string) => Tensor | undefined;

/** What a block needs beside its weights. B = groups x perGroup rows of T tokens. */
interface BlockContext {
  readonly architecture: Architecture;
  /** [B, T] int64. */
  readonly positions: Tensor;
  /** [P, headDim / 2] each. */
  readonly tables: { readonly cos: Tensor; readonly sin: Tensor };
  /** Added to the scores: [B, 1, T, S + T], 0 where a query may look, a large negative number where not. */
  readonly mask: Tensor;
  readonly rows: { readonly groups: Dim; readonly perGroup: Dim; readonly tokens: Dim };
  /** Keys and values that exist already, [groups, kvHeads, S, headDim], seen by every row of their group. */
  readonly past?: { readonly keys: Tensor; readonly values: Tensor; readonly length: Dim };
  readonly loraScale: number;
}

/** Values worth keeping for the backward pass, by name. */
export type Residuals = Record<string, Tensor>;

const need = (w: Weights, name: string): Tensor => {
  const found = w(name);
  if (found === undefined) throw new RangeError(`decoder: no parameter ${name}`);
  return found;
};

/** x [N, in] -> [N, out], with bias and adapter where there are any. */
function linear(x: Tensor, w: Weights, { name, loraScale }: { name: string; loraScale: number }): Tensor {
  let y = o.matmul(x, need(w, `${name}.weight`), { transB: true });
  const bias = w(`${name}.bias`);
  if (bias !== undefined) y = o.add(y, bias);
  const [a, b] = [w(`${name}.loraA`), w(`${name}.loraB`)];
  if (a === undefined || b === undefined) return y;
  return o.add(y, o.matmul(o.matmul(x, a, { transB: true }), b, { transB: true, alpha: loraScale }));
}

function norm(x: Tensor, w: Weights, { name, architecture }: { name: string; architecture: Architecture }): Tensor {
  const weight = need(w, `${name}.weight`);
  if (architecture.norm === "rms") return o.rmsNorm(x, weight, architecture.epsilon);
  return o.layerNorm(x, { weight, bias: need(w, `${name}.bias`), epsilon: architecture.epsilon });
}

/** ids [B, T] -> [B * T, hidden]; learned positions are added where the family has them. */
export function embed(ids: Tensor, positions: Tensor, w: Weights): Tensor {
  const [batch, tokens] = [ids.shape[0]!, ids.shape[1]!];
  const table = need(w, "embed.weight");
  const x = o.gatherRows(table, ids);
  const learned = w("positions.weight");
  const summed = learned === undefined ? x : o.add(x, o.gatherRows(learned, positions));
  return o.reshape(summed, [mulDim(batch, tokens), table.shape[1]!]);
}

/** One layer: x [B * T, hidden] -> y of the same shape, and this call's keys and values [B, kvHeads, T, headDim]. */
export function block(x: Tensor, w: Weights, c: BlockContext): { y: Tensor; keys: Tensor; values: Tensor; residuals: Residuals } {
  const { architecture, loraScale } = c;
  const normed = norm(x, w, { name: "attnNorm", architecture });
  const project = (name: string): Tensor => linear(normed, w, { name, loraScale });
  const q = rotate(headsOf(project("q"), architecture.heads, c), w, { c, part: "qNorm" });
  const keys = rotate(headsOf(project("k"), architecture.kvHeads, c), w, { c, part: "kNorm" });
  const values = headsOf(project("v"), architecture.kvHeads, c);
  const { mixed, residuals } = attention(q, { keys, values }, c);
  const afterAttention = o.add(x, linear(mixed, w, { name: "o", loraScale }));
  const normed2 = norm(afterAttention, w, { name: "mlpNorm", architecture });
  const up = linear(normed2, w, { name: "up", loraScale });
  const gate = architecture.mlp === "gated" ? linear(normed2, w, { name: "gate", loraScale }) : undefined;
  const inner = gate === undefined ? o.gelu(up) : o.mul(o.silu(gate), up);
  const y = o.add(afterAttention, linear(inner, w, { name: "down", loraScale }));
  return { y, keys, values, residuals: { q, mixed, afterAttention, up, ...(gate === undefined ? {} : { gate }), ...residuals } };
}

/** [B * T, heads * d] -> [B, heads, T, d]. */
function headsOf(x: Tensor, heads: number, { architecture, rows }: BlockContext): Tensor {
  const batch = mulDim(rows.groups, rows.perGroup);
  return o.transpose(o.reshape(x, [batch, rows.tokens, heads, architecture.headDim]), [0, 2, 1, 3]);
}

/** Per-head norm (Qwen3), then the rotary embedding. */
function rotate(x: Tensor, w: Weights, { c, part }: { c: BlockContext; part: "qNorm" | "kNorm" }): Tensor {
  const weight = w(`${part}.weight`);
  const normed = weight === undefined ? x : o.rmsNorm(x, weight, c.architecture.epsilon);
  return c.architecture.positions.type === "rotary" ? o.rotary(normed, c.positions, c.tables) : normed;
}

/** Softmax attention over the past and this call's own tokens: -> [B * T, heads * d]. */
function attention(q: Tensor, own: { keys: Tensor; values: Tensor }, c: BlockContext): { mixed: Tensor; residuals: Residuals } {
  const { heads, kvHeads, headDim } = c.architecture;
  const { groups, perGroup, tokens } = c.rows;
  const batch = mulDim(groups, perGroup);
  const repeat = heads / kvHeads;
  const alpha = 1 / Math.sqrt(headDim);
  const stacked = mulDim(repeat, tokens); // the query heads of one key head, one under another
  const ownScores = o.matmul(o.reshape(q, [batch, kvHeads, stacked, headDim]), own.keys, { transB: true, alpha });
  const merge = (mixed: Tensor): Tensor =>
    o.reshape(o.transpose(o.reshape(mixed, [batch, heads, tokens, headDim]), [0, 2, 1, 3]), [mulDim(batch, tokens), heads * headDim]);
  if (c.past === undefined) {
    const probabilities = o.softmax(o.add(o.reshape(ownScores, [batch, heads, tokens, tokens]), c.mask));
    const mixed = o.matmul(o.reshape(probabilities, [batch, kvHeads, stacked, tokens]), own.values);
    return { mixed: merge(mixed), residuals: { probabilities } };
  }
  const { keys, values, length } = c.past;
  // One token a row (decoding): a product for every query head, because the runtime reads the second operand in place when the
  // first has a single row and copies it otherwise. Else one product for all query heads of a key head, over all rows of a group.
  const single = tokens === 1 && perGroup === 1;
  const over = (x: Tensor): Tensor => o.reshape(x, single ? [batch, kvHeads, 1, length, headDim] : [groups, 1, kvHeads, length, headDim]);
  const shaped = (x: Tensor, last: Dim): Tensor =>
    o.reshape(x, single ? [batch, kvHeads, repeat, 1, last] : [groups, perGroup, kvHeads, stacked, last]);
  const scaled = single ? o.mul(q, alpha) : q; // only a plain product has the short cut
  const pastScores = o.matmul(shaped(scaled, headDim), over(keys), { transB: true, alpha: single ? 1 : alpha });
  const all = o.concat([o.reshape(pastScores, [batch, heads, tokens, length]), o.reshape(ownScores, [batch, heads, tokens, tokens])], -1);
  const probabilities = o.softmax(o.add(all, c.mask));
  const total = all.shape[3]!;
  const pastPart = shaped(o.slice(probabilities, -1, { start: 0, end: length }), length);
  const ownPart = o.reshape(o.slice(probabilities, -1, { start: length, end: total }), [batch, kvHeads, stacked, tokens]);
  const fromPast = o.reshape(o.matmul(pastPart, over(values)), [batch, kvHeads, stacked, headDim]);
  return { mixed: merge(o.add(fromPast, o.matmul(ownPart, own.values))), residuals: { probabilities } };
}

/**
 * hidden [N, hidden] -> logits [N, vocabulary] divided by the temperature; the final norm is applied here, to the chosen rows
 * only, and the division to the hidden state (N x hidden numbers instead of N x vocabulary).
 */
export function head(
  hidden: Tensor,
  w: Weights,
  { architecture, inverseTemperature }: { architecture: Architecture; inverseTemperature: Tensor },
): Tensor {
  const normed = o.mul(norm(hidden, w, { name: "finalNorm", architecture }), inverseTemperature);
  return o.matmul(normed, need(w, architecture.tied ? "embed.weight" : "head.weight"), { transB: true });
}

/** hidden [N, hidden] -> one value a row [N], by the final norm and the scalar head; no temperature enters. */
export function scalarHead(hidden: Tensor, w: Weights, architecture: Architecture): Tensor {
  const product = o.matmul(norm(hidden, w, { name: "finalNorm", architecture }), need(w, scalarHeadName), { transB: true });
  return o.reshape(product, [hidden.shape[0]!]);
}

/** The names that every program of this model uses for its sizes. */
export const sizes = {
  groups: dim("P"),
  perGroup: dim("G"),
  tokens: dim("T"),
  past: dim("S"),
  table: dim("R"),
  selected: dim("N"),
} as const;
