/** The losses as compiled programs: values, and gradients with respect to the log-probs. */
import { afterAll, expect, test } from "vitest";
import { grpo } from "../../../src/algo/grpo.ts";
import { broadcastCredit } from "../../../src/loop/advantage/broadcast.ts";
import { buildBatch, type BatchOptions } from "../../../src/loop/batch/rows.ts";
import { crossEntropy } from "../../../src/loop/loss/cross-entropy.ts";
import { klToReference, type KlEstimator } from "../../../src/loop/loss/kl.ts";
import { clippedSurrogate } from "../../../src/loop/loss/surrogate.ts";
import type { Batch, EpisodeEnd, Loss } from "../../../src/types.ts";
import { goldenEngine, heldGradients } from "../../fakes/engines.ts";
import { answerOf, context, sampled, trajectoryOf } from "../../fakes/credit.ts";
import { difference } from "../../fakes/golden.ts";
import { closePrograms, lossOf, runLoss, termLoss } from "../../fakes/losses.ts";

afterAll(closePrograms);

const plain = grpo().loss;

/** The surrogate over a batch whose log-probs are those of the sampler: ratio 1 everywhere. */
async function batchLoss(batch: Batch): Promise<number> {
  const rows = batch.units.flatMap((unit) => unit.rows);
  const joined = (name: string): number[] => rows.flatMap(({ fields }) => [...fields[name]!]);
  const fields = { old: joined("old"), advantage: joined("advantage"), weight: joined("weight") };
  const { loss } = await runLoss(plain, { logprobs: fields.old, fields, scalars: batch.scalars });
  return loss;
}

const build = (answers: readonly (readonly [length: number, advantage: number, end?: EpisodeEnd])[], options: Partial<BatchOptions> = {}) =>
  buildBatch([answers.map(([length, advantage, end]) => broadcastCredit(answerOf(length, end), advantage))], {
    reduction: "token-mean",
    maskTruncated: false,
    maxLength: 8,
    skipZero: true,
    ...options,
  });

test.each([
  ["sequence-mean", 0],
  ["token-mean", 0.6],
  ["constant", 0.375],
] as const)("lengths 2 and 8, advantages 1 and -1: %s gives %d", async (reduction, right) => {
  const { batch } = build(
    [
      [2, 1],
      [8, -1],
    ],
    { reduction },
  );
  expect(await batchLoss(batch!)).toBeCloseTo(right, 6);
});

test("a masked truncated answer is in neither part of the mean: 4 / 4, not 4 / 10", async () => {
  const cut = { type: "length" } as const;
  expect(await batchLoss(build([[4, -1], [6, -1, cut]], { maskTruncated: true }).batch!)).toBeCloseTo(1, 6);
  expect(await batchLoss(build([[4, -1], [6, -1, cut]]).batch!)).toBeCloseTo(1, 6);
  expect(build([[6, -1, cut]], { maskTruncated: true }).batch).toBeNull();
});

test("a row left out for its zero advantages changes neither the loss nor the divisor", async () => {
  const answers = [[4, -1], [6, 0]] as const;
  expect(await batchLoss(build(answers).batch!)).toBeCloseTo(0.4, 6);
  expect(await batchLoss(build(answers, { skipZero: false }).batch!)).toBeCloseTo(0.4, 6);
});

const withKl = (estimator: KlEstimator): Loss => termLoss(klToReference(1, estimator));

test.each<[KlEstimator, number, number]>([["k1", 1, -1], ["k2", 0.5, 0.5], ["k3", 0.367879, 0.718282]])(
  "%s of log-prob -1 under the policy and -2 under the reference",
  async (estimator, right, swapped) => {
    const of = async (policy: number, reference: number): Promise<number> => {
      const fields = { old: [policy], advantage: [0], weight: [1], reference: [reference] };
      const { loss, metrics } = await runLoss(withKl(estimator), { logprobs: [policy], fields });
      // Reported are k3 and k1 of d = policy - reference, whichever is trained on.
      expect(metrics["kl/reference"]).toBeCloseTo(policy > reference ? 0.367879 : 0.718282, 5);
      expect(metrics["kl/referenceK1"]).toBeCloseTo(policy - reference, 6);
      return loss;
    };
    expect(await of(-1, -2)).toBeCloseTo(right, 5);
    expect(await of(-2, -1)).toBeCloseTo(swapped, 5);
  },
);

test.each<[KlEstimator, number, number]>([["k1", 0.192745, 0], ["k2", 0.17232, 0.221807], ["k3", 0.192745, 0.3]])(
  "%s in expectation over the policy's own samples: its value, and its gradient as a loss",
  async (estimator, value, slope) => {
    // Policy (0.8, 0.2) from logits (ln 4, 0), reference (0.5, 0.5); each outcome weighted by its probability.
    const p = [0.8, 0.2];
    const logprobs = p.map(Math.log);
    const half = Math.log(0.5);
    const fields = { old: logprobs, advantage: [0, 0], weight: p, reference: [half, half] };
    const { loss, gradient } = await runLoss(withKl(estimator), { logprobs, fields });
    expect(loss).toBeCloseTo(value, 5);
    // d logp(a) / d first logit = [a is the first] - p(first).
    expect(gradient[0]! * (1 - p[0]!) + gradient[1]! * (0 - p[0]!)).toBeCloseTo(slope, 5);
  },
);

test("the clip takes the gradient exactly where it lowers the objective", async () => {
  const logprobs = [Math.log(1.5), Math.log(1.5), Math.log(0.5), Math.log(0.5), 0];
  const fields = { old: [0, 0, 0, 0, 0], advantage: [1, -1, 1, -1, 1], weight: [1, 1, 1, 1, 1] };
  const { gradient, loss, metrics } = await runLoss(plain, { logprobs, fields });
  expect(loss).toBeCloseTo(-1.2 + 1.5 - 0.5 + 0.8 - 1, 5);
  [0, 1.5, -0.5, 0, -1].forEach((right, t) => expect(gradient[t]).toBeCloseTo(right, 5));
  expect(metrics["clipFraction"]).toBeCloseTo(2 / 5, 6);
  expect(metrics["ratioGap"]).toBeCloseTo(2 / 5, 5);
});

test("with the clip out of reach the loss is the policy gradient", async () => {
  const wide = lossOf(clippedSurrogate({ low: 1, high: 1e6 }));
  const fields = { old: [-1, -2, -0.5], advantage: [0.7, -1.3, 2], weight: [0.5, 0.25, 0.25] };
  const atOld = await runLoss(wide, { logprobs: fields.old, fields });
  fields.advantage.forEach((a, t) => expect(atOld.gradient[t]).toBeCloseTo(-a * fields.weight[t]!, 6));
  expect(atOld.metrics["clipFraction"]).toBe(0);
  const logprobs = [-0.2, -3, -2];
  const moved = await runLoss(wide, { logprobs, fields });
  logprobs.forEach((lp, t) => {
    const ratio = Math.exp(lp - fields.old[t]!);
    expect(moved.gradient[t]).toBeCloseTo(-ratio * fields.advantage[t]! * fields.weight[t]!, 5);
  });
});

test("at ratio 1 a loss of 0 still has a gradient", async () => {
  const fields = { old: [-1, -1], advantage: [1, -1], weight: [0.5, 0.5] };
  const { loss, gradient, metrics } = await runLoss(plain, { logprobs: fields.old, fields });
  expect(loss).toBe(0);
  expect(gradient).toEqual([-0.5, 0.5]);
  expect(metrics).toEqual({ clipFraction: 0, ratioGap: 0, "kl/old": 0 });
});

test("cross-entropy is the weighted sum of negative log-probs", async () => {
  const { loss, gradient } = await runLoss(crossEntropy, { logprobs: [-1, -3], fields: { weight: [0.25, 0.75] }, scalars: {} });
  expect(loss).toBeCloseTo(2.5, 6);
  expect(gradient).toEqual([-0.25, -0.75]);
});

test("any cut into micro-batches, and rows left out for zero advantages, give one and the same gradient", async () => {
  const answer = (seed: number, length: number) => {
    const ids = Array.from({ length }, (_, i) => (seed * 17 + i * 29) % 96);
    return trajectoryOf([{ spans: [context(1, 2, seed % 3), sampled(ids, ids.map((_, i) => -2 - ((seed + i) % 5)))] }]);
  };
  const credits = [0, 1, 2].map((group) =>
    [[5, 1], [9, -0.5], [3, 0], [7, -1]].map(([length, advantage], i) => broadcastCredit(answer(group * 4 + i, length!), advantage!)),
  );
  const options = { reduction: "token-mean", maskTruncated: false, maxLength: 9 } as const;
  const gradients = async (microBatchTokens: number, skipZero: boolean) => {
    const { engine } = await goldenEngine("llama", "full", { microBatchTokens });
    const result = await engine.forwardBackward(buildBatch(credits, { ...options, skipZero }).batch!, plain);
    const held = heldGradients(engine);
    await engine.close();
    return { result, held };
  };
  const whole = await gradients(2048, true);
  for (const other of [await gradients(16, true), await gradients(40, false)]) {
    expect(other.result.loss).toBeCloseTo(whole.result.loss, 5);
    for (const [name, gradient] of whole.held) expect(difference(other.held.get(name)!, gradient).relative, name).toBeLessThan(1e-5);
  }
});
