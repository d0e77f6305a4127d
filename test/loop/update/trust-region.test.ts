/** The trust-region step: conjugate gradients on a known system, Fisher products against explicit ones, and what a step may do. */
import { afterAll, expect, test } from "vitest";
import { trpo } from "../../../src/algo/trpo.ts";
import type { LocalEngine } from "../../../src/compute/policy/local/engine.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { rng, uniform } from "../../../src/random.ts";
import { conjugateGradients, fisherProduct, trustAdapter, trustRegionStep } from "../../../src/loop/update/trust-region.ts";
import type { Batch, Loss, TrainRow, TrustRegion } from "../../../src/types.ts";
import { goldenEngine, separate, storedLora, trainRow } from "../../fakes/engines.ts";
import { difference } from "../../fakes/golden.ts";

const opened: LocalEngine[] = [];
afterAll(() => Promise.all(opened.map((engine) => engine.close())));

const random = (name: string, count: number): number[] => Array.from({ length: count }, (_, i) => uniform(rng(3, name), i));

test("conjugate gradients solve a positive system, in as many iterations as it has different eigenvalues", async () => {
  // A = B B^T + I of size 6, solved against a known x.
  const b = random("matrix", 36);
  const at = (i: number, j: number): number =>
    Array.from({ length: 6 }, (_, k) => b[6 * i + k]! * b[6 * j + k]!).reduce((x, y) => x + y, i === j ? 1 : 0);
  const product = (v: Float32Array): Promise<Float32Array> =>
    Promise.resolve(Float32Array.from(v, (_, i) => v.reduce((sum, value, j) => sum + at(i, j) * value, 0)));
  const x = Float32Array.of(1, -2, 3, -4, 5, -6);
  const found = await conjugateGradients(product, await product(x), 12);
  found.forEach((value, i) => expect(value).toBeCloseTo(x[i]!, 3));
  let products = 0;
  const diagonal = (v: Float32Array): Promise<Float32Array> => {
    products++;
    return Promise.resolve(v.map((value, i) => value * (i < 3 ? 2 : 5)));
  };
  const two = await conjugateGradients(diagonal, Float32Array.of(2, 4, 6, 5, 10, 15), 10);
  two.forEach((value, i) => expect(value).toBeCloseTo([1, 2, 3, 1, 2, 3][i]!, 5));
  expect(products).toBe(2);
});

/** An engine with the search's adapter, and a batch of three rows with the policy's own log-probs as old ones. */
async function opening(): Promise<{ engine: LocalEngine; batch: Batch; rows: TrainRow[] }> {
  const { engine } = await goldenEngine("llama", "stored-lora");
  opened.push(engine);
  const { rank, alpha } = storedLora;
  engine.addAdapter(trustAdapter, { from: "policy", rank, alpha, scalarHead: false, trained: true, seed: 0 });
  await engine.publish();
  const plain = [5, 9, 3].map((length, k) => {
    const ids = random(`row ${k}`, 6 + length).map((value) => Math.floor(value * 96));
    return trainRow(ids, Array.from({ length }, (_, t) => 6 + t));
  });
  const old = await engine.logprobs(plain);
  const rows = plain.map((row, k): TrainRow => {
    const advantage = Float32Array.from(random(`advantage ${k}`, row.trained.length), (value) => value - 0.5);
    return { ...row, fields: { old: old[k]!, advantage, weight: advantage.map(() => 1 / 17) } };
  });
  return { engine, rows, batch: separate(rows, { tokens: 17 }) };
}

const picked: Loss = { key: "test/picked", build: (x) => ({ loss: o.sum(o.mul(x.field("pick"), x.logprobs)), metrics: {} }) };

test("a Fisher product is the mean over tokens of gradient times (gradient . vector)", async () => {
  const { engine, batch, rows } = await opening();
  const directions = engine.directions(trustAdapter);
  const gradients: Float32Array[] = [];
  for (const [r, row] of rows.entries()) {
    for (let t = 0; t < row.trained.length; t++) {
      const pick = new Float32Array(row.trained.length);
      pick[t] = 1;
      await engine.forwardBackward(separate([{ ...rows[r]!, fields: { pick } }]), picked, { adapter: trustAdapter });
      gradients.push(directions.takeGradient());
    }
  }
  const vector = Float32Array.from(random("direction", gradients[0]!.length), (value) => value - 0.5);
  const wanted = new Float32Array(vector.length);
  for (const gradient of gradients) {
    const along = gradient.reduce((sum, value, i) => sum + value * vector[i]!, 0);
    for (let i = 0; i < wanted.length; i++) wanted[i] = wanted[i]! + (gradient[i]! * along) / gradients.length;
  }
  const options = { engine, batch, directions, reset: () => engine.blendAdapter("policy", trustAdapter, 0), on: { adapter: trustAdapter } };
  const found = await fisherProduct(vector, { ...options, damping: 0 });
  expect(difference(found, wanted).relative).toBeLessThan(2e-3);
  const damped = await fisherProduct(vector, { ...options, damping: 0.5 });
  expect(difference(damped, wanted.map((value, i) => value + 0.5 * vector[i]!)).relative).toBeLessThan(1e-3);
  expect(await fisherProduct(new Float32Array(vector.length), { ...options, damping: 0.5 })).toEqual(new Float32Array(vector.length));
});

const region: TrustRegion = { maxKl: 0.01, damping: 0.01, iterations: 10, backtracks: 10 };
const { loss } = trpo();

test.each([0.001, 0.01, 0.3])("a step within %d improves the surrogate and stays inside, as measured afterwards", async (maxKl) => {
  const { engine, batch, rows } = await opening();
  const before = engine.weightsHash();
  const result = await trustRegionStep(engine, batch, { loss, region: { ...region, maxKl } });
  expect([result.accepted, engine.weightsHash() === before]).toEqual([true, false]);
  const now = await engine.logprobs(rows);
  let [kl, gain] = [0, 0];
  rows.forEach(({ fields }, k) =>
    now[k]!.forEach((logprob, t) => {
      const gap = logprob - fields["old"]![t]!;
      kl += (Math.exp(gap) - 1 - gap) / 17;
      gain += ((Math.exp(gap) - 1) * fields["advantage"]![t]!) / 17;
    }),
  );
  expect(kl).toBeLessThanOrEqual(maxKl);
  expect(kl).toBeGreaterThan(maxKl / 8);
  expect(kl).toBeCloseTo(result.kl, 6);
  expect(gain).toBeGreaterThan(0);
  expect(gain).toBeCloseTo(result.improvement, 5);
  // Nothing of the search is left behind, and the weights can be sampled once they are published.
  expect(() => engine.directions(trustAdapter).takeGradient()).toThrow("got none");
  await engine.publish();
});

test("no step that improves: the policy is bitwise what it was, and samples on", async () => {
  const { engine, batch } = await opening();
  // A gradient, and a value that never moves.
  const flat: Loss = {
    key: "test/flat",
    build: (x) => {
      const value = o.sum(o.mul(x.field("advantage"), x.logprobs));
      return { loss: o.sub(value, o.stopGradient(value)), metrics: {} };
    },
  };
  const [hash, version] = [engine.weightsHash(), engine.version];
  const result = await trustRegionStep(engine, batch, { loss: flat, region: { ...region, backtracks: 2 } });
  expect(result).toMatchObject({ accepted: false, kl: 0, improvement: 0 });
  expect(result.gradNorm).toBeGreaterThan(0);
  expect([engine.weightsHash(), engine.version]).toEqual([hash, version]);
  const request = { prompt: [1, 2, 3], count: 1, maxTokens: 2, temperature: 1, stopIds: [], keys: [{ hi: 0, lo: 1 }] };
  expect((await engine.sample(request))[0]!.ids.length).toBe(2);
});

test("equal rewards: no gradient, no step", async () => {
  const { engine, rows } = await opening();
  const none = rows.map((row) => ({ ...row, fields: { ...row.fields, advantage: new Float32Array(row.trained.length) } }));
  const hash = engine.weightsHash();
  const result = await trustRegionStep(engine, separate(none, { tokens: 17 }), { loss, region });
  expect([result.accepted, result.gradNorm, engine.weightsHash()]).toEqual([false, 0, hash]);
});
