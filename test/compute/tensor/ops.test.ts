/** Every stored case of PyTorch's operations, forward and gradients; what has no operation of its own is composed here. */
import { expect, test } from "vitest";
import { gradients } from "../../../src/compute/tensor/gradients.ts";
import type { DType, Tensor } from "../../../src/compute/tensor/graph.ts";
import { floats, HostTensor, integers } from "../../../src/compute/tensor/host.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { Program } from "../../../src/compute/tensor/program.ts";
import { goldenJson } from "../../fakes/golden.ts";

interface Stored {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly data: readonly number[];
}
interface Attributes {
  readonly axis: number;
  readonly axes: readonly number[];
  readonly keepdims: boolean;
  readonly shape: readonly number[];
  readonly perm: readonly number[];
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly steps: readonly number[];
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly value: number;
  readonly min: number | null;
  readonly max: number | null;
  readonly eps: number;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly positions: readonly number[];
  readonly count: number;
}
interface Case {
  readonly name: string;
  readonly op: string;
  readonly attrs: Attributes;
  readonly inputs: Readonly<Record<string, Stored>>;
  readonly output: Stored;
  readonly upstream: Stored;
  readonly grads: Readonly<Record<string, Stored>>;
}

const host = ({ shape, dtype, data }: Stored): HostTensor => {
  if (dtype === "int64") return integers(data, shape);
  return dtype === "bool" ? new HostTensor(Uint8Array.from(data), shape) : floats(data, shape);
};

/** What a builder gets: the inputs in order, as symbols and as stored, and a way to feed more integers. */
interface Given {
  readonly x: readonly Tensor[];
  readonly stored: readonly Stored[];
  readonly a: Attributes;
  readonly feed: (value: HostTensor) => Tensor;
}

const softplus = (x: Tensor): Tensor => o.add(o.max(x, 0), o.log(o.add(1, o.exp(o.neg(o.abs(x))))));
const numbers = (x: Tensor): number[] => x.shape.map(Number);
const swapLast = (x: Tensor, axis: number): Tensor => {
  const at = axis < 0 ? axis + x.shape.length : axis;
  const order = x.shape.map((_, i) => i);
  order[at] = x.shape.length - 1;
  order[x.shape.length - 1] = at;
  return o.transpose(x, order);
};

function logSumExp(x: Tensor, { axes, keepdims }: Attributes): Tensor {
  const top = o.stopGradient(o.maximum(x, { axes, keep: true }));
  const total = o.add(o.log(o.sum(o.exp(o.sub(x, top)), { axes, keep: true })), top);
  const at = axes.map((axis) => (axis < 0 ? axis + x.shape.length : axis));
  return keepdims
    ? total
    : o.reshape(
        total,
        x.shape.filter((_, i) => !at.includes(i)),
      );
}

/** A step other than 1 is a gather along the axis, moved to the front. */
function slice({ x, a, feed }: Given): Tensor {
  let y = x[0]!;
  numbers(y).forEach((size, axis) => {
    const [from, to] = [a.starts[axis]!, a.ends[axis]!].map((at) => (at < 0 ? at + size : at)) as [number, number];
    const step = a.steps[axis]!;
    if (step === 1) y = o.slice(y, axis, { start: from, end: to });
    else {
      const ids = Array.from({ length: Math.ceil((to - from) / step) }, (_, i) => from + i * step);
      const order = [axis, ...y.shape.map((_, i) => i).filter((i) => i !== axis)];
      const rows = o.gatherRows(o.transpose(y, order), feed(integers(ids)));
      y = o.transpose(
        rows,
        order.map((_, i) => order.indexOf(i)),
      );
    }
  });
  return y;
}

function pad({ x, a }: Given): Tensor {
  let y = x[0]!;
  numbers(y).forEach((_, axis) => {
    const block = (count: number): Tensor[] =>
      count === 0
        ? []
        : [
            o.expand(
              o.constant(a.value),
              y.shape.map((d, i) => (i === axis ? count : d)),
            ),
          ];
    const parts = [...block(a.before[axis]!), y, ...block(a.after[axis]!)];
    if (parts.length > 1) y = o.concat(parts, axis);
  });
  return y;
}

/** The stored tables are one row a token; ours are one row a position, so they are put where the positions point. */
function rotary({ x, stored, a, feed }: Given): Tensor {
  const [batch, , , width] = stored[0]!.shape as [number, number, number, number];
  const table = (from: Stored): Tensor => {
    const data = new Float32Array((Math.max(...a.positions) + 1) * (width / 2));
    a.positions.forEach((position, t) => data.set(from.data.slice(t * width, t * width + width / 2), position * (width / 2)));
    return feed(floats(data, [data.length / (width / 2), width / 2]));
  };
  const positions = feed(integers(Array.from({ length: batch }, () => a.positions).flat(), [batch, a.positions.length]));
  return o.rotary(x[0]!, positions, { cos: table(stored[1]!), sin: table(stored[2]!) });
}

function segmentSum({ x, a, feed }: Given): Tensor {
  const size = [a.count, ...numbers(x[0]!).slice(1)];
  const like = feed(floats(new Float32Array(size.reduce((m, n) => m * n, 1)).fill(1), size));
  return size.length === 1 ? o.segmentSum(x[0]!, x[1]!, like) : o.scatterRows(x[0]!, x[1]!, like);
}

const unary =
  (f: (x: Tensor) => Tensor) =>
  ({ x }: Given): Tensor =>
    f(x[0]!);
const binary =
  (f: (a: o.Operand, b: o.Operand) => Tensor) =>
  ({ x }: Given): Tensor =>
    f(x[0]!, x[1]!);
const reduction =
  (f: typeof o.sum) =>
  ({ x, a }: Given): Tensor =>
    f(x[0]!, { axes: a.axes, keep: a.keepdims });

const builders: Readonly<Record<string, (given: Given) => Tensor>> = {
  add: binary(o.add),
  sub: binary(o.sub),
  mul: binary(o.mul),
  div: binary(o.div),
  max: binary(o.max),
  min: binary(o.min),
  pow: ({ x, stored }) => o.pow(x[0]!, stored[1]!.shape.length === 0 && x[1]!.op === "constant" ? stored[1]!.data[0]! : x[1]!),
  neg: unary(o.neg),
  exp: unary(o.exp),
  log: unary(o.log),
  sqrt: unary(o.sqrt),
  tanh: unary(o.tanh),
  sigmoid: unary(o.sigmoid),
  erf: unary(o.erf),
  abs: unary(o.abs),
  relu: unary(o.relu),
  silu: unary(o.silu),
  gelu: unary(o.gelu),
  softplus: unary(softplus),
  logSigmoid: unary((x) => o.neg(softplus(o.neg(x)))),
  clamp: ({ x, a }) => o.clamp(x[0]!, a.min ?? -Infinity, a.max ?? Infinity),
  softmax: unary(o.softmax),
  logSoftmax: unary(o.logSoftmax),
  rmsNorm: ({ x, a }) => o.rmsNorm(x[0]!, x[1]!, a.eps),
  layerNorm: ({ x, a }) => o.layerNorm(x[0]!, { weight: x[1]!, bias: x[2]!, epsilon: a.eps }),
  matmul: ({ x, a }) => o.matmul(x[0]!, x[1]!, { transA: a.transA, transB: a.transB }),
  sum: reduction(o.sum),
  mean: reduction(o.mean),
  reduceMax: reduction(o.maximum),
  logSumExp: ({ x, a }) => logSumExp(x[0]!, a),
  cumsum: ({ x, a }) => swapLast(o.cumSum(swapLast(x[0]!, a.axis)), a.axis),
  reshape: ({ x, a }) => {
    const rest = numbers(x[0]!).reduce((m, n) => m * n, 1) / a.shape.reduce((m, n) => (n === -1 ? m : m * n), 1);
    return o.reshape(
      x[0]!,
      a.shape.map((n) => (n === -1 ? rest : n)),
    );
  },
  transpose: ({ x, a }) => o.transpose(x[0]!, a.perm),
  slice,
  concat: ({ x, a }) => o.concat(x, a.axis),
  pad,
  expand: ({ x, a }) => o.expand(x[0]!, a.shape),
  gatherRows: ({ x }) => o.gatherRows(x[0]!, x[1]!),
  takeAlongLast: ({ x }) => o.takeLast(x[0]!, x[1]!),
  where: ({ x }) => o.where(x[0]!, x[1]!, x[2]!),
  segmentSum,
  rotary,
};

/** Largest difference, in units of the larger of 1 and the largest stored value; NaN and infinity must agree. */
function gap(found: Float32Array, { data }: Stored): number {
  expect(found.length).toBe(data.length);
  const scale = Math.max(1, ...data.map(Math.abs));
  return Math.max(0, ...Array.from(found, (value, i) => (Object.is(value, data[i]) ? 0 : Math.abs(value - data[i]!) / scale)));
}

async function check({ op, attrs, inputs, output, upstream, grads }: Case): Promise<void> {
  const build = builders[op];
  if (build === undefined) throw new Error(`no builder for ${op}`);
  const feeds: Record<string, HostTensor> = Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, host(value)]));
  const feed = (value: HostTensor): Tensor => {
    const name = `more${Object.keys(feeds).length}`;
    feeds[name] = value;
    return o.input(name, value.shape, value.dtype);
  };
  const symbols = new Map(
    Object.entries(inputs).map(([name, { shape, dtype, data }]) => {
      const fixed = op === "pow" && shape.length === 0 && grads[name] === undefined; // a constant exponent
      return [name, fixed ? o.constant(data[0]!) : o.input(name, shape, dtype)] as const;
    }),
  );
  const y = build({ x: [...symbols.values()], stored: Object.values(inputs), a: attrs, feed });
  expect(y.shape).toEqual(output.shape);
  const seed = o.input("upstream", upstream.shape);
  feeds["upstream"] = host(upstream);
  const wanted = Object.keys(grads);
  const found = gradients(
    [{ tensor: y, seed }],
    wanted.map((name) => symbols.get(name)!),
  );
  const program = await Program.compile({ y, ...Object.fromEntries(wanted.map((name, i) => [`d:${name}`, found[i]!])) });
  const result = await program.run(feeds);
  expect(gap(result["y"]!.floats, output)).toBeLessThan(1e-6);
  for (const name of wanted) expect(gap(result[`d:${name}`]!.floats, grads[name]!), `gradient of ${name}`).toBeLessThan(2e-6);
  await program.close();
}

const { cases } = goldenJson<{ cases: readonly Case[] }>("ops.json");

test.each(cases.map((entry) => [entry.name, entry] as const))("%s", async (_, entry) => check(entry));
