/** Every algorithm on an engine: fresh samples have ratio 1, any cut into micro-batches gives one gradient, reductions and masks hold. */
import { afterAll, beforeAll, expect, test } from "vitest";
import * as algo from "../../src/algo/index.ts";
import type { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { broadcastCredit } from "../../src/loop/advantage/broadcast.ts";
import { buildBatch, type BatchOptions } from "../../src/loop/batch/rows.ts";
import type { Algorithm, Batch, Credit, EpisodeEnd, Trajectory, TrainRow } from "../../src/types.ts";
import { answerOf, context, sampled, trajectoryOf } from "../fakes/credit.ts";
import { goldenEngine, heldGradients } from "../fakes/engines.ts";
import { difference } from "../fakes/golden.ts";
import { closePrograms, runLoss } from "../fakes/losses.ts";

const factories = (
  [
    algo.cispo,
    algo.dapo,
    algo.dppo,
    algo.drGrpo,
    algo.gigpo,
    algo.grpo,
    algo.gspo,
    algo.maxrl,
    algo.processGrpo,
    algo.reinforce,
    algo.reinforcePlusPlus,
    algo.reinforcePlusPlusBaseline,
    algo.remax,
    algo.rloo,
  ] as const
).map((factory) => ({ name: factory.id, make: factory, keys: Object.keys(factory.config.shape) }));

let whole: LocalEngine;
let small: LocalEngine;
beforeAll(async () => {
  ({ engine: whole } = await goldenEngine("llama", "full", { microBatchTokens: 2048 }));
  ({ engine: small } = await goldenEngine("llama", "full", { microBatchTokens: 24 }));
});
afterAll(() => Promise.all([whole.close(), small.close(), closePrograms()]));

/** Two turns with tool output between them for every second sample. */
function episode(seed: number, length: number): Trajectory {
  const ids = Array.from({ length }, (_, i) => (seed * 17 + i * 29) % 96);
  const span = (from: number, to: number) => ({ ...sampled(ids.slice(from, to)), temperature: 0.7 });
  const half = Math.ceil(length / 2);
  const prompt = context(1, 2, 3 + (seed % 2));
  return trajectoryOf([
    { spans: seed % 2 === 0 ? [prompt, span(0, length)] : [prompt, span(0, half), context(90, 91), span(half, length)] },
  ]);
}

const credits = [0, 1].map((group) =>
  [
    [5, 1],
    [9, -0.5],
    [4, 0.3],
    [7, -1],
  ].map(([length, advantage], i) => broadcastCredit(episode(group * 4 + i, length!), advantage!)),
);

/** The batch with log-probs of the engine, moved by `noise`, in the fields that losses read. */
async function batchOf(algorithm: Algorithm, noise: number): Promise<Batch> {
  const { batch } = buildBatch(credits, { ...algorithm, maxLength: 9, skipZero: false });
  const rows = batch!.units.flatMap((unit) => unit.rows);
  const logprobs = await whole.logprobs(rows);
  const moved = (row: number, phase: number): Float32Array =>
    logprobs[row]!.map((value, t) => value + noise * Math.sin(3 * row + 5 * t + phase));
  const filled = rows.map((row, i): TrainRow => ({
    ...row,
    fields: { ...row.fields, old: moved(i, 0), sampler: moved(i, 1), reference: moved(i, 2) },
  }));
  let next = 0;
  const units = batch!.units.map((unit) => ({ rows: unit.rows.map(() => filled[next++]!) }));
  return { units, scalars: batch!.scalars };
}

test.each(factories)("$name: on fresh samples, at temperature 0.7, the ratio is 1 and nothing is clipped", async ({ make }) => {
  const algorithm = make({});
  const { metrics } = await whole.forwardBackward(await batchOf(algorithm, 0), algorithm.loss);
  expect(metrics["ratioGap"]).toBeLessThan(1e-6);
  expect(metrics["kl/old"]).toBeLessThan(1e-6);
  expect(metrics["clipFraction"] ?? 0).toBe(0);
  whole.trainer.clearGradients();
});

/** Whatever an algorithm has of the options that look at more than one token. */
const options: Readonly<Record<string, number | string>> = {
  entropyCoef: 0.02,
  offPolicyDelta: 0.01,
  correction: "sequence-truncate",
  klCoef: 0.05,
  klRewardCoef: 0,
  klCovCoef: 0.5,
  covLow: 0.05,
};

test.each(factories)("$name: any cut into micro-batches gives one gradient", async ({ make, keys }) => {
  const algorithm = make(Object.fromEntries(Object.entries(options).filter(([key]) => keys.includes(key))));
  const batch = await batchOf(algorithm, 0.2);
  const right = await whole.forwardBackward(batch, algorithm.loss);
  const found = await small.forwardBackward(batch, algorithm.loss);
  expect(found.loss).toBeCloseTo(right.loss, 5);
  for (const [name, value] of Object.entries(right.metrics)) expect(found.metrics[name], name).toBeCloseTo(value, 5);
  const held = heldGradients(small);
  let norm = 0;
  for (const [name, gradient] of heldGradients(whole)) {
    expect(difference(held.get(name)!, gradient).relative, name).toBeLessThan(1e-5);
    norm += gradient.reduce((sum, value) => sum + value * value, 0);
  }
  expect(norm).toBeGreaterThan(0);
  whole.trainer.clearGradients();
  small.trainer.clearGradients();
});

/** Loss and summed gradient of answers at ratio 1 and log-prob -1 each. */
async function reduced(algorithm: Algorithm, answers: readonly (readonly [length: number, advantage: number, end?: EpisodeEnd])[]) {
  const given = answers.map(([length, advantage, end]): Credit => broadcastCredit(answerOf(length, end), advantage));
  const built = buildBatch([given], { ...algorithm, maxLength: 8, skipZero: true } satisfies BatchOptions);
  const rows = built.batch?.units.flatMap((unit) => unit.rows) ?? [];
  const joined = (name: string): number[] => rows.flatMap(({ fields }) => [...fields[name]!]);
  const fields = { old: joined("old"), advantage: joined("advantage"), weight: joined("weight"), reference: joined("old") };
  const row = rows.flatMap(({ trained }, i) => Array.from(trained, () => i));
  const run =
    rows.length === 0 ? null : await runLoss(algorithm.loss, { logprobs: fields.old, fields, row, scalars: built.batch!.scalars });
  return { ...built, sum: run?.gradient.reduce((a, b) => a + b, 0), loss: run?.loss };
}

const values = { "sequence-mean": 0, "token-mean": 0.6, constant: 0.375 } as const;
const reducible = factories.flatMap(({ name, make, keys }) =>
  keys.includes("reduction") ? (["sequence-mean", "token-mean", "constant"] as const).map((reduction) => ({ name, make, reduction })) : [],
);

test.each(reducible)("$name: lengths 2 and 8, advantages 1 and -1, $reduction", async ({ make, reduction }) => {
  // The gradient of a token is -A times its weight, so its sum is the loss of ratio 1: (-2 + 8) / 10, 0, (-2 + 8) / (2 * 8).
  const { sum } = await reduced(make({ reduction }), [
    [2, 1],
    [8, -1],
  ]);
  expect(sum).toBeCloseTo(values[reduction], 6);
});

test.each<[string, Algorithm, number]>([
  ["dr-grpo", algo.drGrpo(), values.constant],
  ["dapo", algo.dapo(), values["token-mean"]],
  ["gspo", algo.gspo(), values["sequence-mean"]],
  ["rloo", algo.rloo(), values["sequence-mean"]],
])("%s has its own reduction", async (_, algorithm, right) => {
  expect(
    (
      await reduced(algorithm, [
        [2, 1],
        [8, -1],
      ])
    ).loss,
  ).toBeCloseTo(right, 6);
});

test.each(factories)("$name: a masked cut answer is in neither part of the mean", async ({ make }) => {
  const cut = { type: "length" } as const;
  const algorithm = make({ maskTruncated: true });
  const alone = await reduced(algorithm, [[4, -1]]);
  const beside = await reduced(algorithm, [
    [4, -1],
    [6, -1, cut],
  ]);
  // 4 / 4, never 4 / 10; Dr. GRPO's constant gives 4 / 8; RLOO's gradient of each token is the whole row's, 4 times 1.
  expect(alone.sum).toBeCloseTo(algorithm.name === "dr-grpo" ? 0.5 : algorithm.name === "rloo" ? 4 : 1, 5);
  expect([beside.sum, beside.loss, beside.tokens, beside.completions]).toEqual([alone.sum, alone.loss, 4, 1]);
  expect((await reduced(algorithm, [[6, -1, cut]])).batch).toBeNull();
  expect(
    (
      await reduced(make({}), [
        [4, -1],
        [6, -1, cut],
      ])
    ).tokens,
  ).toBe(10);
});

test.each(factories.filter(({ keys }) => keys.includes("klCoef")))(
  "$name: KL in the loss of log-prob -1 against -2 and -2 against -1",
  async ({ make, keys }) => {
    const off = keys.includes("klRewardCoef") ? { klRewardCoef: 0 } : {};
    for (const [klEstimator, right, swapped] of [
      ["k1", 1, -1],
      ["k2", 0.5, 0.5],
      ["k3", 0.367879, 0.718282],
    ] as const) {
      const algorithm = make({ klCoef: 1, klEstimator, ...off });
      const of = async (policy: number, reference: number): Promise<number> => {
        const fields = { old: [policy], advantage: [0], weight: [1], reference: [reference] };
        return (await runLoss(algorithm.loss, { logprobs: [policy], fields })).loss;
      };
      expect(await of(-1, -2)).toBeCloseTo(right, 5);
      expect(await of(-2, -1)).toBeCloseTo(swapped, 5);
    }
  },
);
