/**
 * Reverse-mode differentiation: one rule an operation, in a table complete by type. A rule gets the node and the gradient of
 * its output, and returns a gradient for each input (null: none flows). Each rule is checked against finite differences and
 * against PyTorch's values.
 */
import { expected } from "../../errors.ts";
import { addDim, sameDim, shapeText, subDim, type Dim, type Shape } from "./dim.ts";
import { node, topological, type Node, type OpName, type Tensor } from "./graph.ts";
import * as o from "./ops.ts";

type Rule<K extends OpName> = (node: Node<K>, g: Tensor) => readonly (Tensor | null)[];

/** Sums a gradient over the axes that broadcasting had stretched. */
function unbroadcast(g: Tensor, shape: Shape): Tensor {
  const extra = g.shape.length - shape.length;
  const leading = Array.from({ length: extra }, (_, i) => i);
  const summed = extra > 0 ? o.sum(g, { axes: leading }) : g;
  const stretched = shape.flatMap((d, i) => (d === 1 && !sameDim(summed.shape[i]!, 1) ? [i] : []));
  return stretched.length > 0 ? o.sum(summed, { axes: stretched, keep: true }) : summed;
}

/** The gradient of a reduction, stretched back over the reduced axes. */
function stretch(g: Tensor, { x, axes, keep }: { x: Tensor; axes: readonly number[]; keep: boolean }): Tensor {
  const kept = keep
    ? g
    : o.reshape(
        g,
        x.shape.map((d, i) => (axes.includes(i) ? 1 : d)),
      );
  return o.expand(kept, x.shape);
}

/** The number of reduced elements as a tensor, so that symbolic sizes work. */
function reducedCount(x: Tensor, axes: readonly number[]): Tensor {
  const fixed = axes.map((axis) => x.shape[axis]!);
  if (fixed.every((d): d is number => typeof d === "number")) return o.constant(fixed.reduce((a, b) => a * b, 1));
  return o.sum(o.expand(o.constant(1), x.shape), { axes, keep: true });
}

const two = (n: Node): readonly [Tensor, Tensor] => [n.inputs[0]!, n.inputs[1]!];
const none: Rule<OpName> = (n) => n.inputs.map(() => null);

const elementwise =
  (slope: (n: Node, x: Tensor) => Tensor) =>
  (n: Node, g: Tensor): readonly Tensor[] => [o.mul(g, slope(n, n.inputs[0]!))];

/** max and min: a tie sends half of the gradient to each operand (PyTorch's rule). */
const extremum =
  (sign: 1 | -1) =>
  (n: Node, g: Tensor): readonly Tensor[] => {
    const [a, b] = two(n);
    const share = o.where(o.equal(a, b), 0.5, o.cast(sign === 1 ? o.greater(a, b) : o.less(a, b), "float32"));
    return [unbroadcast(o.mul(g, share), a.shape), unbroadcast(o.mul(g, o.sub(1, share)), b.shape)];
  };

function matmulRule(n: Node<"matmul">, g: Tensor): readonly Tensor[] {
  const [a, b] = two(n);
  const { transA, transB, alpha } = n.attributes;
  // y = alpha A' B', A' = A or A^T: dA' = alpha g B'^T, dB' = alpha A'^T g, each transposed back where A' or B' was.
  const da = transA ? o.matmul(b, g, { transA: transB, transB: true, alpha }) : o.matmul(g, b, { transB: !transB, alpha });
  const db = transB ? o.matmul(g, a, { transA: true, transB: transA, alpha }) : o.matmul(a, g, { transA: !transA, alpha });
  return [unbroadcast(da, a.shape), unbroadcast(db, b.shape)];
}

function rmsNormRule(n: Node<"rmsNorm">, g: Tensor): readonly Tensor[] {
  const [x, weight] = two(n);
  // y = x r w, r = (mean x^2 + e)^-1/2: dx = r (g w) - x r^3 mean(g w x)
  const r = o.div(1, o.sqrt(o.add(o.mean(o.mul(x, x), { axes: [-1], keep: true }), n.attributes.epsilon)));
  const scaled = o.mul(x, r);
  const gw = o.mul(g, weight);
  const projection = o.mean(o.mul(gw, scaled), { axes: [-1], keep: true });
  return [o.mul(o.sub(gw, o.mul(scaled, projection)), r), unbroadcast(o.mul(g, scaled), weight.shape)];
}

function layerNormRule(n: Node<"layerNorm">, g: Tensor): readonly Tensor[] {
  const [x, weight] = two(n);
  const centred = o.sub(x, o.mean(x, { axes: [-1], keep: true }));
  const r = o.div(1, o.sqrt(o.add(o.mean(o.mul(centred, centred), { axes: [-1], keep: true }), n.attributes.epsilon)));
  const scaled = o.mul(centred, r);
  const gw = o.mul(g, weight);
  const projection = o.mean(o.mul(gw, scaled), { axes: [-1], keep: true });
  const dx = o.mul(o.sub(o.sub(gw, o.mean(gw, { axes: [-1], keep: true })), o.mul(scaled, projection)), r);
  return [dx, unbroadcast(o.mul(g, scaled), weight.shape), unbroadcast(g, n.inputs[2]!.shape)];
}

/** Derivative of 0.5 x (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2 / pi). */
function geluSlope(x: Tensor): Tensor {
  const c = Math.sqrt(2 / Math.PI);
  const squared = o.mul(x, x);
  const t = o.tanh(o.mul(o.mul(x, c), o.add(o.mul(squared, 0.044715), 1)));
  const inner = o.mul(o.add(o.mul(squared, 3 * 0.044715), 1), c);
  return o.mul(o.add(o.add(t, 1), o.mul(o.mul(x, o.sub(1, o.mul(t, t))), inner)), 0.5);
}

/** Pieces of g along the concatenated axis. */
function concatRule(n: Node<"concat">, g: Tensor): readonly Tensor[] {
  const { axis } = n.attributes;
  let start: Dim = 0;
  return n.inputs.map((part) => {
    const end = addDim(start, part.shape[axis]!);
    const piece = o.slice(g, axis, { start, end });
    start = end;
    return piece;
  });
}

function sliceRule(n: Node<"slice">, g: Tensor): readonly Tensor[] {
  const x = n.inputs[0]!;
  const { axis, start, end } = n.attributes;
  const zeros = (count: Dim): Tensor[] =>
    count === 0
      ? []
      : [
          o.expand(
            o.constant(0),
            x.shape.map((d, i) => (i === axis ? count : d)),
          ),
        ];
  const parts = [...zeros(start), g, ...zeros(subDim(x.shape[axis]!, end))];
  return [parts.length === 1 ? g : o.concat(parts, axis)];
}

function reduceMaxRule(n: Node<"reduceMax">, g: Tensor): readonly Tensor[] {
  const x = n.inputs[0]!;
  const { axes, keep } = n.attributes;
  const winners = o.cast(o.equal(x, stretch(n, { x, axes, keep })), "float32");
  const share = o.div(winners, o.sum(winners, { axes, keep: true }));
  return [o.mul(stretch(g, { x, axes, keep }), share)];
}

const rules: { readonly [K in OpName]: Rule<K> } = {
  input: none,
  constant: none,
  not: none,
  less: none,
  greater: none,
  equal: none,
  argMax: none,
  stopGradient: none,
  neg: (_, g) => [o.neg(g)],
  exp: (n, g) => [o.mul(g, n)],
  log: (n, g) => [o.div(g, n.inputs[0]!)],
  sqrt: (n, g) => [o.div(o.mul(g, 0.5), n)],
  tanh: elementwise((n) => o.sub(1, o.mul(n as Tensor, n as Tensor))),
  sigmoid: elementwise((n) => o.mul(n as Tensor, o.sub(1, n as Tensor))),
  erf: elementwise((_, x) => o.mul(o.exp(o.neg(o.mul(x, x))), 2 / Math.sqrt(Math.PI))),
  abs: elementwise((_, x) => o.sub(o.cast(o.greater(x, 0), "float32"), o.cast(o.less(x, 0), "float32"))),
  // (x s)' = s + x s (1 - s) = s (1 + x (1 - s))
  silu: elementwise((_, x) => {
    const s = o.sigmoid(x);
    return o.mul(s, o.add(o.mul(x, o.sub(1, s)), 1));
  }),
  gelu: elementwise((_, x) => geluSlope(x)),
  add: (n, g) => two(n).map((x) => unbroadcast(g, x.shape)),
  sub: (n, g) => [unbroadcast(g, two(n)[0].shape), unbroadcast(o.neg(g), two(n)[1].shape)],
  mul: (n, g) => [unbroadcast(o.mul(g, two(n)[1]), two(n)[0].shape), unbroadcast(o.mul(g, two(n)[0]), two(n)[1].shape)],
  div: (n, g) => {
    const [a, b] = two(n);
    return [unbroadcast(o.div(g, b), a.shape), unbroadcast(o.neg(o.div(o.mul(g, n), b)), b.shape)];
  },
  pow: (n, g) => {
    const [a, b] = two(n);
    const da = unbroadcast(o.mul(g, o.mul(b, o.pow(a, o.sub(b, 1)))), a.shape);
    return [da, b.op === "constant" ? null : unbroadcast(o.mul(g, o.mul(n, o.log(a))), b.shape)];
  },
  max: extremum(1),
  min: extremum(-1),
  where: (n, g) => {
    const [condition, a, b] = [n.inputs[0]!, n.inputs[1]!, n.inputs[2]!];
    return [null, unbroadcast(o.where(condition, g, 0), a.shape), unbroadcast(o.where(condition, 0, g), b.shape)];
  },
  cast: (n, g) => [n.inputs[0]!.dtype === "float32" && n.dtype === "float32" ? g : null],
  matmul: matmulRule,
  reduceSum: (n, g) => [stretch(g, { x: n.inputs[0]!, ...n.attributes })],
  reduceMean: (n, g) => {
    const x = n.inputs[0]!;
    return [o.div(stretch(g, { x, ...n.attributes }), reducedCount(x, n.attributes.axes))];
  },
  reduceMax: reduceMaxRule,
  reshape: (n, g) => [o.reshape(g, n.inputs[0]!.shape)],
  transpose: (n, g) => [
    o.transpose(
      g,
      n.attributes.permutation.map((_, i) => n.attributes.permutation.indexOf(i)),
    ),
  ],
  slice: sliceRule,
  concat: concatRule,
  expand: (n, g) => [unbroadcast(g, n.inputs[0]!.shape)],
  softmax: (n, g) => {
    const y = n as Tensor;
    return [o.mul(y, o.sub(g, o.sum(o.mul(g, y), { axes: [-1], keep: true })))];
  },
  // The gradient of a running sum is the running sum from the right: total - cumSum + g.
  cumSum: (_, g) => [o.add(o.sub(o.sum(g, { axes: [-1], keep: true }), o.cumSum(g)), g)],
  rmsNorm: rmsNormRule,
  layerNorm: layerNormRule,
  // A rotation's transpose is the rotation by the negative angle.
  rotary: (n, g) => [o.rotary(g, n.inputs[1]!, { cos: n.inputs[2]!, sin: o.neg(n.inputs[3]!) }), null, null, null],
  gatherRows: (n, g) => [o.scatterRows(g, n.inputs[1]!, n.inputs[0]!), null],
  scatterRows: (n, g) => [o.gatherRows(g, n.inputs[1]!), null, null],
  // The gradient is the same selection backwards, with a row of zeros for the rows left out.
  selectRows: (n, g) => {
    const x = n.inputs[0]!;
    const zero = o.expand(o.constant(0), [1, ...x.shape.slice(1)]);
    return [o.gatherRows(o.concat([g, zero], 0), n.inputs[2]!), null, null];
  },
  takeLast: (n, g) => [o.addAtLast(o.expand(o.constant(0), n.inputs[0]!.shape), n.inputs[1]!, g), null],
  addAtLast: (n, g) => [g, null, o.takeLast(g, n.inputs[1]!)],
  segmentSum: (n, g) => [o.reshape(o.gatherRows(o.reshape(g, [...g.shape, 1]), n.inputs[1]!), n.inputs[0]!.shape), null, null],
};

/** The operations that have a rule: all of them. */
export const ruleNames = Object.keys(rules) as readonly OpName[];

/** Adds two contributions; one that is zero but for single elements is scattered onto the other. */
function accumulate(a: Tensor | undefined, b: Tensor): Tensor {
  if (a === undefined) return b;
  const [sparse, dense] = a.op === "addAtLast" && a.inputs[0]!.op === "expand" ? [a, b] : [b, a];
  if (sparse.op === "addAtLast" && sparse.inputs[0]!.op === "expand") return o.addAtLast(dense, sparse.inputs[1]!, sparse.inputs[2]!);
  return o.add(a, b);
}

/**
 * Gradients of sum(seed * output) over `outputs` with respect to `wanted`, as new nodes of the same graph.
 * A wanted tensor that no output depends on gets zeros of its shape.
 */
export function gradients(outputs: readonly { readonly tensor: Tensor; readonly seed: Tensor }[], wanted: readonly Tensor[]): Tensor[] {
  const order = topological(outputs.map((output) => output.tensor));
  const needed = new Set<Tensor>(wanted);
  for (const n of order) if (n.op !== "stopGradient" && n.inputs.some((x) => needed.has(x))) needed.add(n);
  const flows = new Map<Tensor, Tensor>();
  for (const { tensor, seed } of outputs) flows.set(tensor, accumulate(flows.get(tensor), seed));
  for (const n of order.reverse()) {
    const g = flows.get(n);
    if (g === undefined || !needed.has(n) || n.inputs.length === 0) continue;
    const rule = rules[n.op] as Rule<OpName>;
    rule(n, g).forEach((contribution, i) => {
      const x = n.inputs[i]!;
      if (contribution !== null && needed.has(x)) flows.set(x, accumulate(flows.get(x), contribution));
    });
  }
  return wanted.map((x) => flows.get(x) ?? o.expand(o.constant(0), x.shape));
}

/** Gradients of a scalar. */
export function gradient(loss: Tensor, wanted: readonly Tensor[]): Tensor[] {
  if (loss.shape.length !== 0) throw new RangeError(expected("gradient", "a scalar", shapeText(loss.shape)));
  return gradients([{ tensor: loss, seed: node("constant", [], { attributes: { value: 1 }, shape: [] }) }], wanted);
}
