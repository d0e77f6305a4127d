/** Operations over symbolic tensors, with their shape rules. Errors name the operation and both shapes. */
import { expected } from "../../errors.ts";
import { addDim, broadcastShapes, productOf, sameDim, sameShape, shapeText, subDim, type Dim, type Shape } from "./dim.ts";
import { node, type BinaryOp, type CompareOp, type DType, type Tensor, type UnaryOp } from "./graph.ts";

export type Operand = Tensor | number;

/** An input of the program, bound to a host array when it is run. */
export function input(name: string, shape: Shape, dtype: DType = "float32"): Tensor {
  return node("input", [], { attributes: { name }, shape, dtype });
}

/** A scalar constant. */
export function constant(value: number, dtype: DType = "float32"): Tensor {
  return node("constant", [], { attributes: { value }, shape: [], dtype });
}

const lift = (x: Operand, dtype: DType = "float32"): Tensor => (typeof x === "number" ? constant(x, dtype) : x);

function unary(op: UnaryOp, x: Tensor): Tensor {
  return node(op, [x], { attributes: {}, shape: x.shape, dtype: x.dtype });
}

/** Both operands as tensors of one element type; a number takes the other's. */
function alike(op: string, a: Operand, b: Operand): readonly [Tensor, Tensor] {
  const x = lift(a, typeof b === "number" ? "float32" : b.dtype);
  const y = lift(b, x.dtype);
  if (x.dtype !== y.dtype) throw new TypeError(expected(op, "operands of one element type", `${x.dtype} and ${y.dtype}`));
  return [x, y];
}

function binary(op: BinaryOp, a: Operand, b: Operand): Tensor {
  const [x, y] = alike(op, a, b);
  return node(op, [x, y], { attributes: {}, shape: broadcastShapes(x.shape, y.shape, op), dtype: x.dtype });
}

function compare(op: CompareOp, a: Tensor, b: Operand): Tensor {
  const y = lift(b, a.dtype);
  return node(op, [a, y], { attributes: {}, shape: broadcastShapes(a.shape, y.shape, op), dtype: "bool" });
}

export const neg = (x: Tensor): Tensor => unary("neg", x);
export const exp = (x: Tensor): Tensor => unary("exp", x);
export const log = (x: Tensor): Tensor => unary("log", x);
export const sqrt = (x: Tensor): Tensor => unary("sqrt", x);
export const tanh = (x: Tensor): Tensor => unary("tanh", x);
export const sigmoid = (x: Tensor): Tensor => unary("sigmoid", x);
export const erf = (x: Tensor): Tensor => unary("erf", x);
export const abs = (x: Tensor): Tensor => unary("abs", x);
/** x * sigmoid(x). */
export const silu = (x: Tensor): Tensor => unary("silu", x);
/** GELU in its tanh approximation (GPT-2's `gelu_new`). */
export const gelu = (x: Tensor): Tensor => unary("gelu", x);
export const not = (x: Tensor): Tensor => unary("not", x);

export const add = (a: Operand, b: Operand): Tensor => binary("add", a, b);
export const sub = (a: Operand, b: Operand): Tensor => binary("sub", a, b);
export const mul = (a: Operand, b: Operand): Tensor => binary("mul", a, b);
export const div = (a: Operand, b: Operand): Tensor => binary("div", a, b);
export const pow = (a: Operand, b: Operand): Tensor => binary("pow", a, b);
export const max = (a: Operand, b: Operand): Tensor => binary("max", a, b);
export const min = (a: Operand, b: Operand): Tensor => binary("min", a, b);
export const relu = (x: Tensor): Tensor => max(x, 0);
export const clamp = (x: Tensor, low: number, high: number): Tensor => min(max(x, low), high);

export const less = (a: Tensor, b: Operand): Tensor => compare("less", a, b);
export const greater = (a: Tensor, b: Operand): Tensor => compare("greater", a, b);
export const equal = (a: Tensor, b: Operand): Tensor => compare("equal", a, b);

export function where(condition: Tensor, a: Operand, b: Operand): Tensor {
  const [x, y] = alike("where", a, b);
  const shape = broadcastShapes(condition.shape, broadcastShapes(x.shape, y.shape, "where"), "where");
  return node("where", [condition, x, y], { attributes: {}, shape, dtype: x.dtype });
}

export function cast(x: Tensor, to: DType): Tensor {
  return x.dtype === to ? x : node("cast", [x], { attributes: { to }, shape: x.shape, dtype: to });
}

/** The value, without a gradient. */
export function stopGradient(x: Tensor): Tensor {
  return node("stopGradient", [x], { attributes: {}, shape: x.shape, dtype: x.dtype });
}

/** alpha * a b over the last two dimensions, either one transposed; leading dimensions broadcast. */
export function matmul(a: Tensor, b: Tensor, { transA = false, transB = false, alpha = 1 } = {}): Tensor {
  if (a.shape.length < 2 || b.shape.length < 2)
    throw new RangeError(expected("matmul", "two matrices or more", `${shapeText(a.shape)} and ${shapeText(b.shape)}`));
  const [aRows, aInner] = transA ? [a.shape.at(-1)!, a.shape.at(-2)!] : [a.shape.at(-2)!, a.shape.at(-1)!];
  const [bInner, bColumns] = transB ? [b.shape.at(-1)!, b.shape.at(-2)!] : [b.shape.at(-2)!, b.shape.at(-1)!];
  if (!sameDim(aInner, bInner)) {
    throw new RangeError(
      expected("matmul", "equal inner sizes", `${shapeText(a.shape)}${transA ? "^T" : ""} and ${shapeText(b.shape)}${transB ? "^T" : ""}`),
    );
  }
  const batch = broadcastShapes(a.shape.slice(0, -2), b.shape.slice(0, -2), "matmul");
  return node("matmul", [a, b], { attributes: { transA, transB, alpha }, shape: [...batch, aRows, bColumns] });
}

type ReduceOptions = { readonly axes?: readonly number[]; readonly keep?: boolean };

function reduce(op: "reduceSum" | "reduceMean" | "reduceMax", x: Tensor, { axes, keep = false }: ReduceOptions = {}): Tensor {
  const all = (axes ?? x.shape.map((_, i) => i)).map((axis) => (axis < 0 ? axis + x.shape.length : axis));
  if (all.length === 0) return x;
  const shape = x.shape.flatMap((d, i) => (all.includes(i) ? (keep ? [1] : []) : [d]));
  return node(op, [x], { attributes: { axes: all, keep }, shape, dtype: x.dtype });
}
export const sum = (x: Tensor, options?: ReduceOptions): Tensor => reduce("reduceSum", x, options);
export const mean = (x: Tensor, options?: ReduceOptions): Tensor => reduce("reduceMean", x, options);
/** The largest element; a tie's gradient goes to every element that attains it, in equal parts. */
export const maximum = (x: Tensor, options?: ReduceOptions): Tensor => reduce("reduceMax", x, options);

export function reshape(x: Tensor, shape: Shape): Tensor {
  if (sameShape(x.shape, shape)) return x;
  if (!sameDim(productOf(x.shape), productOf(shape)))
    throw new RangeError(expected("reshape", `${String(productOf(x.shape))} elements ${shapeText(x.shape)}`, shapeText(shape)));
  return node("reshape", [x], { attributes: {}, shape, dtype: x.dtype });
}

export function transpose(x: Tensor, permutation: readonly number[]): Tensor {
  return node("transpose", [x], { attributes: { permutation }, shape: permutation.map((axis) => x.shape[axis]!), dtype: x.dtype });
}

/** Elements start..end-1 of one axis. */
export function slice(x: Tensor, axis: number, range: { readonly start: Dim; readonly end: Dim }): Tensor {
  const at = axis < 0 ? axis + x.shape.length : axis;
  const shape = x.shape.map((d, i) => (i === at ? subDim(range.end, range.start) : d));
  return node("slice", [x], { attributes: { axis: at, ...range }, shape, dtype: x.dtype });
}

export function concat(parts: readonly Tensor[], axis: number): Tensor {
  const first = parts[0]!;
  const at = axis < 0 ? axis + first.shape.length : axis;
  const fits = (p: Tensor): boolean =>
    p.dtype === first.dtype && p.shape.length === first.shape.length && p.shape.every((d, i) => i === at || sameDim(d, first.shape[i]!));
  if (!parts.every(fits))
    throw new RangeError(expected("concat", `parts equal but for axis ${at}`, parts.map((p) => shapeText(p.shape)).join(" and ")));
  const shape = first.shape.map((d, i) => (i === at ? parts.map((p) => p.shape[at]!).reduce<Dim>(addDim, 0) : d));
  return node("concat", parts, { attributes: { axis: at }, shape, dtype: first.dtype });
}

export function expand(x: Tensor, shape: Shape): Tensor {
  return sameShape(x.shape, shape) ? x : node("expand", [x], { attributes: {}, shape, dtype: x.dtype });
}

export const softmax = (x: Tensor): Tensor => node("softmax", [x], { attributes: {}, shape: x.shape });
/** log sum exp over the last axis, kept as size 1; the maximum is taken out first and carries no gradient. */
export function logSumExp(x: Tensor): Tensor {
  const top = stopGradient(maximum(x, { axes: [-1], keep: true }));
  return add(log(sum(exp(sub(x, top)), { axes: [-1], keep: true })), top);
}
export function logSoftmax(x: Tensor): Tensor {
  const shifted = sub(x, stopGradient(maximum(x, { axes: [-1], keep: true })));
  return sub(shifted, log(sum(exp(shifted), { axes: [-1], keep: true })));
}
/** Running sum over the last axis. */
export const cumSum = (x: Tensor): Tensor => node("cumSum", [x], { attributes: {}, shape: x.shape });
/** int64 index of the largest element of the last axis, kept as size 1; the first of equals. */
export const argMax = (x: Tensor): Tensor => node("argMax", [x], { attributes: {}, shape: [...x.shape.slice(0, -1), 1], dtype: "int64" });

/** x / sqrt(mean(x^2) + epsilon) * weight over the last axis. */
export function rmsNorm(x: Tensor, weight: Tensor, epsilon: number): Tensor {
  return node("rmsNorm", [x, weight], { attributes: { epsilon }, shape: x.shape });
}
/** (x - mean) / sqrt(var + epsilon) * weight + bias over the last axis. */
export function layerNorm(x: Tensor, { weight, bias, epsilon }: { weight: Tensor; bias: Tensor; epsilon: number }): Tensor {
  return node("layerNorm", [x, weight, bias], { attributes: { epsilon }, shape: x.shape });
}
/** Rotary embedding of x [B, H, T, d] (half-split, as in Llama) at int64 positions [B, T]; cos and sin are [P, d/2] tables. */
export function rotary(x: Tensor, positions: Tensor, tables: { readonly cos: Tensor; readonly sin: Tensor }): Tensor {
  return node("rotary", [x, positions, tables.cos, tables.sin], { attributes: {}, shape: x.shape });
}

export function gatherRows(table: Tensor, ids: Tensor): Tensor {
  return node("gatherRows", [table, ids], { attributes: {}, shape: [...ids.shape, ...table.shape.slice(1)], dtype: table.dtype });
}
export function scatterRows(rows: Tensor, ids: Tensor, like: Tensor): Tensor {
  return node("scatterRows", [rows, ids, like], { attributes: {}, shape: like.shape });
}
/** Rows of x [N, D] at index [M], each at most once; `inverse` [N] says where each row went, and is M for a row left out. */
export function selectRows(x: Tensor, index: Tensor, inverse: Tensor): Tensor {
  return node("selectRows", [x, index, inverse], { attributes: {}, shape: [...index.shape, ...x.shape.slice(1)] });
}
export function takeLast(x: Tensor, ids: Tensor): Tensor {
  return node("takeLast", [x, ids], { attributes: {}, shape: ids.shape, dtype: x.dtype });
}
export function addAtLast(base: Tensor, ids: Tensor, values: Tensor): Tensor {
  return node("addAtLast", [base, ids, values], { attributes: {}, shape: base.shape });
}
/** Sums x [N] by int64 segment [N] into [R]; `ones` is any [R] tensor. */
export function segmentSum(x: Tensor, segment: Tensor, ones: Tensor): Tensor {
  return node("segmentSum", [x, segment, ones], { attributes: {}, shape: ones.shape });
}
