/** Drawing an id from logits, alone: closed forms, the distribution, and that no id of probability 0 ever comes out. */
import { expect, test } from "vitest";
import { dim } from "../../../src/compute/tensor/dim.ts";
import { floats, HostTensor, integers } from "../../../src/compute/tensor/host.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { Program } from "../../../src/compute/tensor/program.ts";
import { blockSize, sampleFromLogits } from "../../../src/compute/policy/local/sampling.ts";
import { normal, rng, uniform } from "../../../src/random.ts";

const B = dim("B");

/** Draws one id for each uniform number from the same logits. */
async function draw(
  logits: readonly number[],
  uniforms: readonly number[],
  greedy = false,
): Promise<{ ids: number[]; logprobs: number[] }> {
  const program = await Program.compile({ ...sampleFromLogits(o.input("logits", [B, logits.length]), { rows: B, greedy, masked: false }) });
  const [rows, blocks] = [uniforms.length, Math.ceil(logits.length / blockSize(logits.length))];
  const table = new Float32Array(rows * logits.length);
  for (let r = 0; r < rows; r++) table.set(logits, r * logits.length);
  const result = await program.run({
    logits: floats(table, [rows, logits.length]),
    uniform: floats(uniforms, [rows, 1]),
    rowOffset: integers(
      uniforms.map((_, r) => r * blocks),
      [rows, 1],
    ),
    isGreedy: new HostTensor(new Uint8Array(rows).fill(1), [rows, 1]),
  });
  await program.close();
  return { ids: Array.from(result["id"]!.data as BigInt64Array, Number), logprobs: [...result["logprob"]!.floats] };
}

function softmax(logits: readonly number[]): number[] {
  const top = Math.max(...logits);
  const weights = logits.map((value) => Math.exp(value - top));
  const total = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / total);
}

const countsOf = (ids: readonly number[], size: number): number[] => {
  const counts = new Array<number>(size).fill(0);
  for (const id of ids) counts[id]!++;
  return counts;
};

test("the log-prob is of logits divided by the temperature: [2, 1, 0] at 0.5, token 1", async () => {
  const { ids, logprobs } = await draw(
    [2, 1, 0].map((value) => value / 0.5),
    [0.9],
  );
  expect(ids).toEqual([1]);
  expect(logprobs[0]!).toBeCloseTo(-2.142932, 5);
});

test("greedy takes the first of the largest, with its log-prob", async () => {
  const { ids, logprobs } = await draw([1, 3, 3, -2, 0], [0.99], true);
  expect(ids).toEqual([1]);
  expect(logprobs[0]!).toBeCloseTo(Math.log(softmax([1, 3, 3, -2, 0])[1]!), 5);
});

const vocabularies = [1, 7, 96, 97, 300, 307];
const logitsOf = (size: number): number[] => Array.from({ length: size }, (_, i) => 1.5 * normal(rng(size, "logits"), i));

test("block sizes: a divisor where there is one near the root, else padding", () => {
  expect(vocabularies.map(blockSize)).toEqual([1, 7, 12, 128, 20, 128]);
  expect(blockSize(49_152)).toBe(256);
});

test.each(vocabularies)("vocabulary %i: frequencies are the softmax (chi-square over 20,000 draws)", async (size) => {
  const logits = logitsOf(size);
  const key = rng(11, size);
  const { ids, logprobs } = await draw(
    logits,
    Array.from({ length: 20_000 }, (_, i) => uniform(key, i)),
  );
  const probabilities = softmax(logits);
  // Cells that expect fewer than five draws are taken together.
  const small = { seen: 0, want: 0 };
  let statistic = 0;
  let cells = 0;
  countsOf(ids, size).forEach((seen, id) => {
    const want = probabilities[id]! * ids.length;
    if (want < 5) {
      small.seen += seen;
      small.want += want;
    } else {
      statistic += (seen - want) ** 2 / want;
      cells++;
    }
  });
  if (small.want > 0) statistic += (small.seen - small.want) ** 2 / small.want;
  const degrees = Math.max(1, cells - (small.want > 0 ? 0 : 1));
  expect(statistic).toBeLessThan(degrees + 4 * Math.sqrt(2 * degrees));
  for (let i = 0; i < 200; i++) expect(Math.abs(logprobs[i]! - Math.log(probabilities[ids[i]!]!))).toBeLessThan(1e-5);
});

test.each(vocabularies)("vocabulary %i: an even grid of numbers gives each id its share to one draw", async (size) => {
  const logits = logitsOf(size);
  const count = 16_384;
  const { ids } = await draw(
    logits,
    Array.from({ length: count }, (_, i) => (i + 0.5) / count),
  );
  const probabilities = softmax(logits);
  countsOf(ids, size).forEach((seen, id) => expect(Math.abs(seen - count * probabilities[id]!)).toBeLessThan(1.1));
  expect([...ids].sort((a, b) => a - b)).toEqual(ids);
});

const last = 1 - 2 ** -24;
const extremes: Readonly<Record<string, (i: number, size: number) => number>> = {
  "one certain id in the middle": (i, size) => (i === size >> 1 ? 1e4 : -1e4),
  "one certain first id": (i) => (i === 0 ? 0 : -Infinity),
  "one certain last id": (i, size) => (i === size - 1 ? 500 : -500),
  "every third id alone possible": (i, size) => (i % 3 === 1 || size === 1 ? normal(rng(2), i) : -Infinity),
  "every twelfth id impossible": (i, size) => (i % 12 === 0 && size > 1 ? -200 : normal(rng(3), i)),
  "huge and equal": () => 3e4,
  "a long tail": (i) => -i,
};

test.each(Object.entries(extremes))("%s: never an id out of range or of probability 0", async (_, logit) => {
  for (const size of vocabularies) {
    const logits = Array.from({ length: size }, (__, i) => logit(i, size));
    const probabilities = softmax(logits);
    // The ends, numbers near every step of the running sum, and some between.
    const near: number[] = [0, 2 ** -24, last, last - 2 ** -24];
    let sum = 0;
    for (const p of probabilities) {
      sum += p;
      for (let k = -3; k <= 3; k++) near.push(Math.min(last, Math.max(0, (Math.round(sum * 2 ** 24) + k) / 2 ** 24)));
    }
    for (let i = 0; i < 100; i++) near.push(uniform(rng(5, size), i));
    const { ids, logprobs } = await draw(logits, near);
    expect(ids.every((id) => id >= 0 && id < size)).toBe(true);
    expect(Math.min(...ids.map((id) => Math.fround(probabilities[id]!)))).toBeGreaterThan(0);
    ids.forEach((id, i) => expect(Math.abs(logprobs[i]! - Math.log(probabilities[id]!))).toBeLessThan(1e-4));
  }
});
