import { expect, test } from "vitest";
import {
  addDim,
  bindShape,
  broadcastShapes,
  dim,
  evaluate,
  mulDim,
  productOf,
  sameDim,
  sameShape,
  shapeText,
  subDim,
} from "../../../src/compute/tensor/dim.ts";

const [B, T, S] = [dim("B"), dim("T"), dim("S")];

test("equal polynomials are equal however they were made", () => {
  expect(String(addDim(S, T))).toBe("S+T");
  expect(sameDim(addDim(S, T), addDim(T, S))).toBe(true);
  expect(sameDim(mulDim(mulDim(B, T), 4), mulDim(4, mulDim(T, B)))).toBe(true);
  expect(sameDim(mulDim(addDim(S, T), B), addDim(mulDim(S, B), mulDim(B, T)))).toBe(true);
  expect(sameDim(S, T)).toBe(false);
  expect(sameShape([B, 3], [B, 3])).toBe(true);
  expect(sameShape([B, 3], [B, 3, 1])).toBe(false);
});

test("what cancels becomes a number", () => {
  expect(subDim(addDim(S, T), T)).toEqual(S);
  expect(subDim(T, T)).toBe(0);
  expect(subDim(addDim(T, 5), T)).toBe(5);
  expect(mulDim(T, 0)).toBe(0);
  expect(addDim(2, 3)).toBe(5);
  expect(productOf([2, 3, 4])).toBe(24);
  expect(productOf([])).toBe(1);
});

test("squares and negative terms evaluate", () => {
  const bindings = new Map([
    ["B", 2],
    ["T", 5],
    ["S", 7],
  ]);
  expect(evaluate(mulDim(T, T), bindings)).toBe(25);
  expect(evaluate(subDim(mulDim(B, S), addDim(T, 1)), bindings)).toBe(8);
  expect(evaluate(9, bindings)).toBe(9);
  expect(() => evaluate(dim("Q"), bindings)).toThrow("dimension Q is not bound by any input");
});

test("binding takes plain names, checks known ones and names the place", () => {
  const bindings = new Map<string, number>();
  bindShape([B, T, 3], [2, 5, 3], bindings, "input x");
  expect([...bindings]).toEqual([
    ["B", 2],
    ["T", 5],
  ]);
  expect(() => bindShape([B, 4], [2, 5], bindings, "input y")).toThrow("input y: expected shape [B, 4], got [2, 5] (bound: B=2 T=5)");
  expect(() => bindShape([B], [3], bindings, "input z")).toThrow("input z: expected shape [B], got [3]");
  expect(() => bindShape([B], [2, 1], bindings, "input z")).toThrow("input z: expected shape [B], got [2, 1]");
});

test("a product or a sum is checked once its names are known", () => {
  const bindings = new Map([
    ["B", 2],
    ["T", 5],
  ]);
  expect(() => bindShape([mulDim(B, T)], [10], bindings, "input x")).not.toThrow();
  expect(() => bindShape([mulDim(B, T)], [11], bindings, "input x")).toThrow("input x: expected shape [B*T], got [11]");
  expect(() => bindShape([addDim(B, T)], [8], bindings, "input m")).toThrow("input m: expected shape [B+T], got [8]");
});

test("broadcasting", () => {
  expect(broadcastShapes([B, 1, 3], [T, 1], "add")).toEqual([B, T, 3]);
  expect(broadcastShapes([], [B], "add")).toEqual([B]);
  expect(() => broadcastShapes([B], [T], "add")).toThrow("add: expected shapes that broadcast, got [B] and [T]");
  expect(() => broadcastShapes([2], [3], "mul")).toThrow("mul: expected shapes that broadcast, got [2] and [3]");
  expect(shapeText([B, mulDim(2, T)])).toBe("[B, 2*T]");
});
