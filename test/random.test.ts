import { expect, test } from "vitest";
import { hash32, integer, normal, permutation, philox, rng, uniform } from "../src/random.ts";

type Words = readonly [number, number, number, number];

// philox4x32, 10 rounds: the known-answer vectors that come with Random123 (Salmon et al. 2011).
const vectors: readonly { readonly counter: Words; readonly key: readonly [number, number]; readonly output: Words }[] = [
  { counter: [0, 0, 0, 0], key: [0, 0], output: [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8] },
  {
    counter: [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
    key: [0xffffffff, 0xffffffff],
    output: [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
  },
  {
    counter: [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
    key: [0xa4093822, 0x299f31d0],
    output: [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
  },
];

test.each(vectors)("philox gives the published words for counter $counter", ({ counter, key, output }) => {
  expect(philox({ lo: key[0], hi: key[1] }, counter)).toEqual(output);
});

test("uniform is the top 24 bits of the first word: exact in float32, and below 1 at the largest word", () => {
  // 0x6627e8 / 2^24
  expect(uniform({ hi: 0, lo: 0 })).toBe(0x6627e8 / 2 ** 24);
  const key = rng(1);
  for (let counter = 0; counter < 1000; counter++) {
    const value = uniform(key, counter);
    expect(Math.fround(value)).toBe(value);
  }
});

test("uniform is uniform", () => {
  const size = 20_000;
  const key = rng(7, "uniformity");
  const bins = new Array<number>(20).fill(0);
  let sum = 0;
  for (let counter = 0; counter < size; counter++) {
    const value = uniform(key, counter);
    bins[Math.floor(value * 20)]!++;
    sum += value;
  }
  // Chi-square of 20 bins, 19 degrees of freedom: 43.8 is passed by chance once in a thousand seeds; this seed is fixed.
  const chiSquare = bins.reduce((total, count) => total + (count - size / 20) ** 2 / (size / 20), 0);
  expect(chiSquare).toBeLessThan(43.8);
  // Standard error of the mean: 1 / sqrt(12 * 20000) = 0.00204; four of them.
  expect(Math.abs(sum / size - 0.5)).toBeLessThan(0.0082);
});

test("normal has mean 0, variance 1 and the right tails", () => {
  const size = 20_000;
  const key = rng(3, "normal");
  const values = Array.from({ length: size }, (_, counter) => normal(key, counter));
  const mean = values.reduce((total, value) => total + value, 0) / size;
  const variance = values.reduce((total, value) => total + (value - mean) ** 2, 0) / size;
  // Four standard errors: 4 / sqrt(n) = 0.028 and 4 * sqrt(2 / n) = 0.04. P(|z| > 1.959964) = 0.05, four errors 0.0062.
  expect(Math.abs(mean)).toBeLessThan(0.028);
  expect(Math.abs(variance - 1)).toBeLessThan(0.04);
  const tail = values.filter((value) => Math.abs(value) > 1.959964).length / size;
  expect(Math.abs(tail - 0.05)).toBeLessThan(0.0062);
  expect(values.every(Number.isFinite)).toBe(true);
});

test("a permutation holds every index once, is reproducible and depends on its key", () => {
  for (const size of [0, 1, 2, 257]) {
    const order = permutation(rng(5, size), size);
    expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i));
    expect(permutation(rng(5, size), size)).toEqual(order);
  }
  expect(permutation(rng(5), 257)).not.toEqual(permutation(rng(6), 257));
});

test("all six orders of three come up equally often", () => {
  const counts = new Map<string, number>();
  for (let i = 0; i < 6000; i++) {
    const order = permutation(rng(11, i), 3).join("");
    counts.set(order, (counts.get(order) ?? 0) + 1);
  }
  expect([...counts.keys()].sort()).toEqual(["012", "021", "102", "120", "201", "210"]);
  // Standard deviation sqrt(6000 * 1/6 * 5/6) = 28.9; four of them.
  for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(116);
});

test("integers stay in range and reach both ends", () => {
  const key = rng(2);
  const seen = new Set(Array.from({ length: 400 }, (_, counter) => integer(key, 5, counter)));
  expect([...seen].sort()).toEqual([0, 1, 2, 3, 4]);
  expect(integer(key, 1, 9)).toBe(0);
});

test("an address is its parts in order: numbers and strings differ, and so do order and depth", () => {
  const numbers = [rng(1), rng(2), rng(1, 0), rng(1, 0, 0), rng(1, 1), rng(1, 1, 2), rng(1, 2, 1), rng(1, 2 ** 32)];
  const keys = [...numbers, rng(1, "1"), rng(1, "sample")];
  expect(new Set(keys.map(({ hi, lo }) => `${hi}:${lo}`)).size).toBe(keys.length);
  expect(rng(1, 2, "x")).toEqual(rng(1, 2, "x"));
});

test("hash32 is 32-bit FNV-1a over UTF-8", () => {
  // Published values: offset basis for the empty string, 0xe40c292c for "a", 0xbf9cf968 for "foobar".
  expect([hash32(""), hash32("a"), hash32("foobar")]).toEqual([0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
  // U+00E9 is the bytes c3 a9, so it differs from the single byte e9.
  expect(hash32("\u00e9")).toBe(Math.imul(Math.imul(0x811c9dc5 ^ 0xc3, 0x01000193) ^ 0xa9, 0x01000193) >>> 0);
});
