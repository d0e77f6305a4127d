/** Every gradient rule against fourth-order central differences of the forward program, in float32. */
import { expect, test } from "vitest";
import { normal, rng } from "../../../src/random.ts";
import { dim, subDim, type Dim, type Shape } from "../../../src/compute/tensor/dim.ts";
import { gradient, gradients, ruleNames } from "../../../src/compute/tensor/gradients.ts";
import type { OpName, Tensor } from "../../../src/compute/tensor/graph.ts";
import { floats, HostTensor, integers } from "../../../src/compute/tensor/host.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { Program } from "../../../src/compute/tensor/program.ts";

interface Given {
  readonly name: string;
  readonly symbol: Tensor;
  readonly value: HostTensor;
}
interface Case {
  readonly op: OpName;
  readonly name: string;
  /** Inputs that get a gradient, then others. */
  readonly given: readonly Given[];
  readonly build: (...x: Tensor[]) => Tensor;
  readonly sizes?: Readonly<Record<string, number>>;
}

const sizes: Readonly<Record<string, number>> = { B: 3, T: 4, S: 2, N: 5 };
const [B, T, S, N] = ["B", "T", "S", "N"].map(dim) as [Dim, Dim, Dim, Dim];
const actual = (shape: Shape): number[] => shape.map((d) => (typeof d === "number" ? d : sizes[d.key]!));
let made = 0;

/** A float input of normal numbers passed through `map`. */
function x(shape: Shape, map: (value: number, i: number) => number = (value) => value): Given {
  const name = `x${made++}`;
  const size = actual(shape);
  const key = rng(7, name);
  const data = Float32Array.from({ length: size.reduce((a, b) => a * b, 1) }, (_, i) => map(normal(key, i), i));
  return { name, symbol: o.input(name, shape), value: floats(data, size) };
}
function ids(values: readonly number[], shape: Shape): Given {
  const name = `x${made++}`;
  return { name, symbol: o.input(name, shape, "int64"), value: integers(values, actual(shape)) };
}
function flags(values: readonly number[], shape: Shape): Given {
  const name = `x${made++}`;
  return { name, symbol: o.input(name, shape, "bool"), value: new HostTensor(Uint8Array.from(values), actual(shape)) };
}

const positive = (value: number): number => 0.5 + Math.abs(value);
/** Keeps a distance from 0, where a slope jumps. */
const apart = (value: number): number => value + Math.sign(value) * 0.3;
const cases: Case[] = [];
const add = (op: OpName, name: string, given: readonly Given[], build: Case["build"]): number => cases.push({ op, name, given, build });

for (const op of ["neg", "exp", "tanh", "sigmoid", "erf", "silu", "gelu"] as const) add(op, "elements", [x([B, 3])], (a) => o[op](a));
for (const op of ["log", "sqrt"] as const) add(op, "elements", [x([B, 3], positive)], (a) => o[op](a));
add("abs", "elements", [x([B, 3], apart)], (a) => o.abs(a));

const pairs: readonly (readonly [string, Shape, Shape])[] = [
  ["same", [B, T], [B, T]],
  ["row", [B, T], [T]],
  ["outer", [2, 1, T], [B, 1]],
  ["scalar", [B, T], []],
  ["scalar left", [], [2, T]],
];
for (const [name, a, b] of pairs) {
  for (const op of ["add", "sub", "mul"] as const) add(op, name, [x(a), x(b)], (p, q) => o[op](p, q));
  add("div", name, [x(a), x(b, positive)], (p, q) => o.div(p, q));
  add("pow", name, [x(a, positive), x(b)], (p, q) => o.pow(p, q));
  // One side near odd multiples of 1, the other near even ones: nowhere equal.
  const [low, high] = [
    (v: number): number => 2 * Math.round(v) + 0.2 * Math.tanh(v),
    (v: number): number => 2 * Math.round(v) + 1 + 0.2 * Math.tanh(v),
  ];
  for (const op of ["max", "min"] as const) add(op, name, [x(a, low), x(b, high)], (p, q) => o[op](p, q));
}
add("pow", "constant exponent", [x([B, 3])], (a) => o.pow(a, 3));
add("where", "same", [x([B, 2]), x([B, 2]), flags([1, 0, 0, 1, 1, 0], [B, 2])], (a, b, c) => o.where(c, a, b));
add("where", "broadcast", [x([2, 1, T]), x([]), flags([1, 0, 1], [B, 1])], (a, b, c) => o.where(c, a, b));

const stacks: readonly (readonly [string, Shape, Shape])[] = [
  ["matrices", [], []],
  ["batched", [B], [B]],
  ["one matrix right", [B], []],
  ["one matrix left", [], [B]],
  ["both broadcast", [2, 1], [B]],
  ["group over rows", [S, 1, 2], [S, B, 2]],
];
for (const [name, a, b] of stacks) {
  for (const [transA, transB] of [
    [false, false],
    [false, true],
    [true, false],
    [true, true],
  ] as const) {
    const left: Shape = transA ? [...a, T, 2] : [...a, 2, T];
    const right: Shape = transB ? [...b, 3, T] : [...b, T, 3];
    add("matmul", `${name} ${transA} ${transB}`, [x(left), x(right)], (p, q) => o.matmul(p, q, { transA, transB, alpha: 0.7 }));
  }
}
add("matmul", "plain", [x([B, T]), x([T, 2])], (p, q) => o.matmul(p, q));

for (const axes of [[0], [1], [-1], [0, 2], undefined]) {
  for (const keep of [false, true]) {
    const options = { keep, ...(axes === undefined ? {} : { axes }) };
    const name = `${axes?.join() ?? "all"} ${keep}`;
    add("reduceSum", name, [x([B, T, 2])], (a) => o.sum(a, options));
    add("reduceMean", name, [x([B, T, 2])], (a) => o.mean(a, options));
    add("reduceMax", name, [x([B, T, 2], (_, i) => ((i * 7) % 24) / 4)], (a) => o.maximum(a, options));
  }
}
add("reduceMean", "fixed size", [x([2, 3])], (a) => o.mean(a));
add("reshape", "symbolic", [x([B, T, 2])], (a) => o.reshape(a, [T, B, 2]));
add("transpose", "symbolic", [x([B, T, 2])], (a) => o.transpose(a, [2, 0, 1]));
add("slice", "fixed", [x([B, 5])], (a) => o.slice(a, -1, { start: 1, end: 4 }));
add("slice", "from the start to a symbolic size", [x([B, T]), x([S])], (a) => o.slice(a, 1, { start: 0, end: S }));
add("slice", "from a symbolic size to the end", [x([B, T]), x([S])], (a) => o.slice(a, 1, { start: S, end: T }));
add("slice", "one before a symbolic end", [x([T, B])], (a) => o.slice(a, 0, { start: subDim(T, 2), end: subDim(T, 1) }));
add("concat", "symbolic sizes", [x([B, S]), x([B, T]), x([B, 2])], (...parts) => o.concat(parts, -1));
add("concat", "first axis", [x([B, 2]), x([1, 2])], (...parts) => o.concat(parts, 0));
add("concat", "one part twice", [x([B, S])], (a) => o.concat([a, a], 1));
add("expand", "axis", [x([B, 1]), x([T])], (a) => o.expand(a, [B, T]));
add("expand", "leading", [x([1, 3]), x([B, T])], (a) => o.expand(a, [B, T, 3]));
add("expand", "scalar", [x([]), x([B])], (a) => o.expand(a, [B, 2]));
add("softmax", "rows", [x([B, 2, T])], (a) => o.softmax(a));
add("softmax", "log sum exp and log softmax", [x([B, T])], (a) => o.add(o.logSumExp(a), o.logSoftmax(a)));
add("cumSum", "last axis", [x([B, T])], (a) => o.cumSum(a));
add("rmsNorm", "rows", [x([B, T, 6]), x([6])], (a, w) => o.rmsNorm(a, w, 1e-2));
add("layerNorm", "rows", [x([B, T, 6]), x([6]), x([6])], (a, weight, bias) =>
  o.layerNorm(a, { weight: weight, bias: bias, epsilon: 1e-2 }),
);
const angles = [x([9, 3], (_, i) => Math.cos(i)), x([9, 3], (_, i) => Math.sin(i))] as const;
add("rotary", "positions that jump", [x([B, 2, T, 6]), ids([0, 1, 2, 3, 5, 6, 7, 8, 4, 4, 0, 2], [B, T]), ...angles], (a, at, cos, sin) =>
  o.rotary(a, at, { cos: cos, sin: sin }),
);
add("gatherRows", "repeated", [x([N, 3]), ids([4, 0, 4, 4, 1, 0], [B, 2])], (table, at) => o.gatherRows(table, at));
add("scatterRows", "repeated", [x([T, 3]), ids([1, 1, 4, 1], [T]), x([N, 3])], (rows, at, like) => o.scatterRows(rows, at, like));
add("selectRows", "some left out", [x([N, 3]), ids([3, 0, 4], [B]), ids([1, 3, 3, 0, 2], [N])], (rows, at, back) =>
  o.selectRows(rows, at, back),
);
add("takeLast", "one a row", [x([B, N]), ids([4, 0, 4], [B, 1])], (a, at) => o.takeLast(a, at));
add("takeLast", "several, repeated", [x([B, N]), ids([4, 4, 0, 1, 2, 2], [B, 2])], (a, at) => o.takeLast(a, at));
add("addAtLast", "both", [x([B, N]), x([B, 1]), ids([4, 0, 4], [B, 1])], (base, values, at) => o.addAtLast(base, at, values));
add("segmentSum", "with an empty segment", [x([N]), ids([3, 0, 3, 3, 1], [N]), x([T])], (a, at, ones) => o.segmentSum(a, at, ones));
// No gradient: the differences are 0 too, away from the steps.
add("less", "step", [x([B, 2], apart)], (a) => o.cast(o.less(a, 0), "float32"));
add("greater", "step", [x([B, 2], apart)], (a) => o.cast(o.greater(a, 0), "float32"));
add("equal", "step", [x([B, 2], apart)], (a) => o.cast(o.equal(a, 0), "float32"));
add("not", "step", [x([B, 2], apart)], (a) => o.cast(o.not(o.greater(a, 0)), "float32"));
add("cast", "to integers", [x([B, 2], (v) => Math.round(v) + 0.5)], (a) => o.cast(o.cast(a, "int64"), "float32"));
add("argMax", "index", [x([B, T], (_, i) => (i * 5) % 12)], (a) => o.cast(o.argMax(a), "float32"));
add("input", "itself", [x([B, 2])], (a) => a);
add("constant", "beside an input", [x([B, 2])], (a) => o.add(o.mul(a, o.constant(3)), o.constant(2)));
// Several uses of one tensor, and single elements scattered onto a dense gradient.
add("takeLast", "with a dense use", [x([B, N]), ids([4, 0, 4], [B, 1])], (a, at) => o.sub(o.takeLast(a, at), o.logSumExp(a)));
add("takeLast", "twice", [x([B, N]), ids([4, 0, 4], [B, 1]), ids([4, 1, 2], [B, 1])], (a, at, other) =>
  o.mul(o.takeLast(a, at), o.takeLast(a, other)),
);

const isFloat = ({ value }: Given): boolean => value.dtype === "float32";

/** d sum(y upstream) / d element by (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h, the sum taken in double precision. */
async function differences(
  program: Program,
  feeds: Record<string, HostTensor>,
  { target, upstream }: { target: HostTensor; upstream: Float32Array },
): Promise<number[]> {
  const h = 2 ** -5;
  const data = target.floats;
  const at = async (i: number, value: number): Promise<number> => {
    data[i] = value;
    return (await program.run(feeds, { sizes }))["y"]!.floats.reduce((sum, y, j) => sum + y * upstream[j]!, 0);
  };
  const slopes: number[] = [];
  for (let i = 0; i < data.length; i++) {
    const middle = data[i]!;
    const near = (await at(i, middle + h)) - (await at(i, middle - h));
    const far = (await at(i, middle + 2 * h)) - (await at(i, middle - 2 * h));
    data[i] = middle;
    slopes.push((8 * near - far) / (12 * h));
  }
  return slopes;
}

async function check({ op, given, build }: Case): Promise<void> {
  const y = build(...given.map(({ symbol }) => symbol));
  const size = actual(y.shape.map((d) => (typeof d === "number" ? d : evaluated(d))));
  const upstream = Float32Array.from({ length: size.reduce((a, b) => a * b, 1) }, (_, i) => normal(rng(3, op), i));
  const feeds: Record<string, HostTensor> = {
    upstream: floats(upstream, size),
    ...Object.fromEntries(given.map(({ name, value }) => [name, value])),
  };
  const forward = await Program.compile({ y });
  const wanted = given.filter((entry, i) => isFloat(entry) && !(i > 0 && firstOnly.includes(op)));
  const found = gradients(
    [{ tensor: y, seed: o.input("upstream", y.shape) }],
    wanted.map(({ symbol }) => symbol),
  );
  const backward = await Program.compile(Object.fromEntries(found.map((g, i) => [`d${i}`, g])));
  const result = await backward.run(feeds, { sizes });
  for (const [i, { value }] of wanted.entries()) {
    const slopes = await differences(forward, feeds, { target: value, upstream });
    const scale = Math.max(1, ...slopes.map(Math.abs));
    const errors = Array.from(result[`d${i}`]!.floats, (g, j) => Math.abs(g - slopes[j]!) / scale);
    expect(errors.length).toBe(slopes.length);
    expect(Math.max(...errors), `input ${i}`).toBeLessThan(2e-4);
  }
  await forward.close();
  await backward.close();
}

const evaluated = (d: Exclude<Dim, number>): number =>
  [...d.terms].reduce((sum, [names, k]) => sum + k * (names === "" ? 1 : names.split("*").reduce((m, name) => m * sizes[name]!, 1)), 0);

/** Operations whose later inputs (angle tables, holders of a shape) get no gradient. */
const firstOnly: readonly OpName[] = ["rotary", "scatterRows", "segmentSum"];

test.each(cases.map((entry) => [entry.op, entry.name, entry] as const))("%s: %s", async (_op, _name, entry) => check(entry));

async function runGradient(
  loss: Tensor,
  wanted: Tensor,
  feeds: Record<string, HostTensor>,
  bound: Record<string, number> = {},
): Promise<number[]> {
  const [g] = gradient(loss, [wanted]);
  const program = await Program.compile({ g: g! });
  const found = [...(await program.run(feeds, { sizes: bound }))["g"]!.floats];
  await program.close();
  return found;
}

test("ties: a maximum over axes shares its gradient equally, max and min send half to each side", async () => {
  const a = o.input("a", [4]);
  const tied = { a: floats([2, 5, 5, 5]) };
  expect(await runGradient(o.maximum(a), a, tied)).toEqual([0, 1 / 3, 1 / 3, 1 / 3].map(Math.fround));
  expect(await runGradient(o.sum(o.max(a, 5)), a, tied)).toEqual([0, 0.5, 0.5, 0.5]);
  expect(await runGradient(o.sum(o.min(a, 5)), a, tied)).toEqual([1, 0.5, 0.5, 0.5]);
});

test("no gradient passes a stop, and a tensor that nothing depends on gets zeros", async () => {
  const a = o.input("a", [2]);
  const feeds = { a: floats([3, -1]) };
  expect(await runGradient(o.sum(o.mul(a, o.stopGradient(a))), a, feeds)).toEqual([3, -1]);
  expect(await runGradient(o.sum(o.stopGradient(a)), a, feeds)).toEqual([0, 0]);
  expect(await runGradient(o.sum(o.input("b", [2])), a, { ...feeds, b: floats([1, 1]) })).toEqual([0, 0]);
});

test("a mean over a symbolic axis divides by the actual size even where elements are infinite", async () => {
  const a = o.input("a", [dim("K")]);
  expect(await runGradient(o.mean(a), a, { a: floats([Infinity, 1, 2, 3]) }, { K: 4 })).toEqual([0.25, 0.25, 0.25, 0.25]);
});

test("only a scalar has a gradient", () => {
  expect(() => gradient(o.input("a", [2, dim("B")]), [])).toThrow("gradient: expected a scalar, got [2, B]");
});

test("every operation of the table is checked here", () => {
  const tested = new Set<OpName>([...cases.map(({ op }) => op), "stopGradient"]);
  expect([...tested].sort()).toEqual([...ruleNames].sort());
});
