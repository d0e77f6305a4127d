import { expect, test } from "vitest";
import { addDim, dim, mulDim } from "../../../src/compute/tensor/dim.ts";
import type { Tensor } from "../../../src/compute/tensor/graph.ts";
import { floats, HostTensor, integers, Pool } from "../../../src/compute/tensor/host.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { Program } from "../../../src/compute/tensor/program.ts";

const [B, T] = [dim("B"), dim("T")];
const values = (tensor: HostTensor | undefined): number[] => Array.from(tensor!.data as Float32Array, Number);

test("an output is written into the given buffer, in place", async () => {
  const program = await Program.compile({ y: o.mul(o.input("x", [B]), 2) });
  const target = floats(new Float32Array(3));
  const buffer = target.data.buffer;
  const result = await program.run({ x: floats([1, 2, 3]) }, { into: { y: target } });
  expect(result["y"]).toBe(target);
  expect(target.data.buffer).toBe(buffer);
  expect(values(target)).toEqual([2, 4, 6]);
  await program.close();
});

test("an output may be written over an input where all between is elementwise", async () => {
  const x = o.input("x", [B]);
  const program = await Program.compile({ y: o.add(x, o.mul(o.input("g", [B]), 0.5)) });
  const weight = floats(Float32Array.from({ length: 5000 }, (_, i) => i));
  const g = floats(new Float32Array(5000).fill(2));
  for (let k = 0; k < 3; k++) await program.run({ x: weight, g }, { into: { y: weight } });
  expect(weight.floats.every((value, i) => value === i + 3)).toBe(true);
  await program.close();
});

test("inputs are read where they are: what the caller writes is seen by the next run", async () => {
  const w = o.input("w", [4, 2]);
  const program = await Program.compile({ y: o.matmul(o.input("x", [B, 2]), w, { transB: true }) });
  const weight = floats([1, 0, 0, 1, 1, 1, 2, 2], [4, 2]);
  const x = floats([3, 5], [1, 2]);
  expect(values((await program.run({ w: weight, x }))["y"])).toEqual([3, 5, 8, 16]);
  weight.floats.set([10, 0], 0);
  expect(values((await program.run({ w: weight, x }))["y"])).toEqual([30, 5, 8, 16]);
  await program.close();
});

test("a view into a larger buffer is read and written at its own place", async () => {
  const program = await Program.compile({ y: o.neg(o.input("x", [B])) });
  const whole = Float32Array.from([1, 2, 3, 4, 5]);
  const out = new Float32Array(5);
  await program.run({ x: floats(whole.subarray(1, 4)) }, { into: { y: floats(out.subarray(2)) } });
  expect([...out]).toEqual([0, 0, -2, -3, -4]);
  await program.close();
});

test("one program serves several shapes, and shapes that are sums and products of sizes", async () => {
  const [x, past] = [o.input("x", [B, T]), o.input("past", [B, dim("S")])];
  const all = o.concat([past, x], 1);
  const program = await Program.compile({ flat: o.reshape(all, [mulDim(B, addDim(dim("S"), T))]), ones: o.expand(o.constant(1), [T, B]) });
  for (const [b, t, s] of [
    [1, 2, 1],
    [2, 3, 1],
    [1, 1, 4],
    [1, 2, 1],
  ] as const) {
    const a = Array.from({ length: b * t }, (_, i) => i + 1);
    const p = Array.from({ length: b * s }, (_, i) => -i - 1);
    const result = await program.run({ x: floats(a, [b, t]), past: floats(p, [b, s]) });
    const rows = Array.from({ length: b }, (_, r) => [...p.slice(r * s, (r + 1) * s), ...a.slice(r * t, (r + 1) * t)]);
    expect(values(result["flat"])).toEqual(rows.flat());
    expect(result["flat"]!.shape).toEqual([b * (s + t)]);
    expect(result["ones"]!.shape).toEqual([t, b]);
    expect(values(result["ones"])).toEqual(new Array(t * b).fill(1));
  }
  await program.close();
});

test("tensors of size zero", async () => {
  const x = o.input("x", [B, 3]);
  const program = await Program.compile({ sum: o.sum(x), rows: o.sum(x, { axes: [1] }), y: o.matmul(x, o.input("w", [3, 2])) });
  const result = await program.run({ x: floats([], [0, 3]), w: floats([1, 2, 3, 4, 5, 6], [3, 2]) });
  expect(values(result["sum"])).toEqual([0]);
  expect(result["rows"]!.shape).toEqual([0]);
  expect(result["y"]!.shape).toEqual([0, 2]);
  await program.close();
});

test("wrong feeds are refused: the input, the expected, the found", async () => {
  const program = await Program.compile({ y: o.add(o.input("x", [B, 3]), o.cast(o.input("ids", [B, 1], "int64"), "float32")) });
  const x = floats([1, 2, 3], [1, 3]);
  const ids = integers([1], [1, 1]);
  await expect(program.run({ x })).rejects.toThrow("program input ids: expected a tensor, got none");
  await expect(program.run({ x: floats([1, 2], [1, 2]), ids })).rejects.toThrow("program input x: expected shape [B, 3], got [1, 2]");
  await expect(program.run({ x, ids: integers([1, 2], [2, 1]) })).rejects.toThrow(
    "program input ids: expected shape [B, 1], got [2, 1] (bound: B=1)",
  );
  await expect(program.run({ x, ids: floats([1], [1, 1]) })).rejects.toThrow("program input ids: expected int64, got float32");
  await expect(program.run({ x, ids }, { into: { y: floats([0, 0], [1, 2]) } })).rejects.toThrow(
    "program output y: expected shape [B, 3], got [1, 2]",
  );
  await expect(program.run({ x, ids }, { into: { y: integers([0, 0, 0], [1, 3]) } })).rejects.toThrow(
    "program output y: expected float32, got int64",
  );
  await program.close();
});

test("an input whose shape is a product is checked, whatever the order of the inputs", async () => {
  const flat = o.input("flat", [mulDim(B, T)]);
  const program = await Program.compile({ y: o.add(o.reshape(flat, [B, T]), o.input("grid", [B, T])) });
  const grid = floats([1, 2, 3, 4, 5, 6], [2, 3]);
  expect(values((await program.run({ flat: floats([0, 0, 0, 0, 0, 1]), grid }))["y"])).toEqual([1, 2, 3, 4, 5, 7]);
  await expect(program.run({ flat: floats([1, 2, 3, 4]), grid })).rejects.toThrow("program input flat: expected shape [B*T], got [4]");
  await program.close();
});

test("symbols of wrong shape or type are refused when the graph is written", () => {
  const [a, b] = [o.input("a", [B, 3]), o.input("b", [B, 4])];
  expect(() => o.add(a, b)).toThrow("add: expected shapes that broadcast, got [B, 3] and [B, 4]");
  expect(() => o.matmul(a, b)).toThrow("matmul: expected equal inner sizes, got [B, 3] and [B, 4]");
  expect(() => o.matmul(a, o.input("v", [3]))).toThrow("matmul: expected two matrices or more, got [B, 3] and [3]");
  expect(() => o.reshape(a, [B, 4])).toThrow("reshape: expected 3*B elements [B, 3], got [B, 4]");
  expect(() => o.add(a, o.input("i", [3], "int64"))).toThrow("add: expected operands of one element type, got float32 and int64");
  expect(() => o.where(o.greater(a, 0), a, o.cast(a, "int64"))).toThrow(
    "where: expected operands of one element type, got float32 and int64",
  );
  expect(() => o.concat([a, o.input("c", [T, 3])], 1)).toThrow("concat: expected parts equal but for axis 1, got [B, 3] and [T, 3]");
});

test("a tensor given as an input cuts the graph", async () => {
  const x = o.input("x", [B]);
  const middle = o.exp(x);
  const program = await Program.compile({ y: o.add(middle, x) }, { given: { middle } });
  expect([...program.inputNames].sort()).toEqual(["middle", "x"]);
  expect(values((await program.run({ x: floats([1, 2]), middle: floats([10, 20]) }))["y"])).toEqual([11, 22]);
  await program.close();
});

test("a graph's constants, comparisons and index operations", async () => {
  const x = o.input("x", [B, 4]);
  const outputs: Record<string, Tensor> = {
    best: o.argMax(x),
    above: o.greater(x, 0.5),
    flipped: o.not(o.less(x, 0.5)),
    whole: o.cast(x, "int64"),
  };
  const program = await Program.compile(outputs);
  const result = await program.run({ x: floats([0, 1, 1, -2.5, 3.7, 0.5, 0, 3.7], [2, 4]) });
  expect(values(result["best"])).toEqual([1, 0]);
  expect(values(result["above"])).toEqual([0, 1, 1, 0, 1, 0, 0, 1]);
  expect(values(result["flipped"])).toEqual([0, 1, 1, 0, 1, 1, 0, 1]);
  expect(values(result["whole"])).toEqual([0, 1, 1, -2, 3, 0, 0, 3]);
  await program.close();
});

test("a host tensor knows its type and refuses a wrong count", () => {
  expect(() => new HostTensor(new Float32Array(5), [2, 3])).toThrow("HostTensor: expected 6 elements for shape [2, 3], got 5");
  expect(() => integers([1]).floats).toThrow("HostTensor.floats: expected float32, got int64");
  const tensor = floats([1, 2]);
  expect(tensor.value.data).toBe(tensor.data);
});

test("the pool lends a buffer again, and holds no more than it was asked for at once", () => {
  const pool = new Pool();
  const first = pool.take([100, 100]);
  const bytes = pool.bytes;
  expect(bytes).toBeGreaterThanOrEqual(40_000);
  expect(bytes).toBeLessThanOrEqual(45_000);
  pool.give(first);
  const second = pool.take([9900]);
  expect(second.data.buffer).toBe(first.data.buffer);
  expect(pool.bytes).toBe(bytes);
  expect(pool.take([9900]).data.buffer).not.toBe(first.data.buffer);
  pool.give(second);
  pool.trim();
  expect(pool.bytes).toBe(bytes);
});
