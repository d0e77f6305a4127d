/** Preference algorithms: what is refused, credit of best and worst, micro-batches, and the reference of a loaded adapter. */
import { expect, test } from "vitest";
import { dpo } from "../../src/algo/dpo.ts";
import { kto } from "../../src/algo/kto.ts";
import { onlineDpo } from "../../src/algo/online-dpo.ts";
import { orpo } from "../../src/algo/orpo.ts";
import { processRewardModel } from "../../src/algo/process-reward-model.ts";
import { rewardModel } from "../../src/algo/reward-model.ts";
import { simpo } from "../../src/algo/simpo.ts";
import { messageOf } from "../../src/errors.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { labelBatch, pairBatch, scoredPairBatch, stepBatch, type EncodedPair } from "../../src/loop/batch/preference.ts";
import { openReference } from "../../src/train/reference.ts";
import { parseTrainConfig } from "../../src/train/config.ts";
import type { Batch, OfflineAlgorithm } from "../../src/types.ts";
import { groupOf, plainContext } from "../fakes/credit.ts";
import { goldenEngine, heldGradients } from "../fakes/engines.ts";
import { difference } from "../fakes/golden.ts";

const config = (algo: object) => ({ name: "x", model: { path: "m" }, data: "d.jsonl", algo });
const refusal = (input: unknown): string => {
  try {
    parseTrainConfig(input);
    return "accepted";
  } catch (cause) {
    return messageOf(cause);
  }
};

test.each<[object, string]>([
  [
    { name: "dpo", loss: "hinge", labelSmoothing: 0.1 },
    "algo.loss and algo.labelSmoothing: hinge with 0.1: it has no effect there; set algo.loss to conservative or robust",
  ],
  [
    { name: "dpo", loss: "robust" },
    "algo.loss and algo.labelSmoothing: robust with 0 is the sigmoid loss; set algo.labelSmoothing above 0 or algo.loss to sigmoid",
  ],
  [{ name: "dpo", ipoLength: "sum" }, "algo.loss and algo.ipoLength: sigmoid does not read ipoLength; leave it out"],
  [
    { name: "dpo", labelSmoothing: 0.5 },
    "algo.labelSmoothing: expected a number of at least 0 and below 0.5, got 0.5; share of pairs whose label is wrong",
  ],
  [{ name: "simpo", reference: "live" }, "algo: key reference has no effect with this algorithm; leave it out"],
  [{ name: "orpo", reference: "live" }, "algo: key reference has no effect with this algorithm; leave it out"],
  [
    { name: "online-dpo", groupSize: 1 },
    "algo.groupSize: expected an integer of at least 2 and at most 4096, got 1; samples of one task; group baseline needs >= 2 samples",
  ],
  [
    { name: "kto", desirableWeight: 0, undesirableWeight: 0 },
    "algo.desirableWeight and algo.undesirableWeight: both are 0, so nothing is trained; set one above 0",
  ],
  [{ name: "dpo", loss: "conservative", labelSmoothing: 0.1 }, "accepted"],
])("%j: %s", (algo, message) => {
  expect(refusal(config(algo))).toBe(message);
});

test("held-out rows of data are refused where tasks are sampled", () => {
  const { data: _, ...sampled } = { ...config({ name: "online-dpo" }), env: { name: "desk" }, train: { evalRows: 5 } };
  expect(refusal(sampled)).toMatch(/^train.evalRows: expected nothing with online-dpo, whose evaluation samples held-out tasks, got 5/);
});

test("online DPO: the best against the worst of a group; ties and groups with one score train nothing", () => {
  const { credit, ...algorithm } = onlineDpo({ groupSize: 4 });
  const signs = (...scores: readonly (number | string)[]) =>
    credit([groupOf(...scores)], plainContext)[0]!.map((one) => one?.advantages[0]![0] ?? null);
  expect(signs(0.5, 1, 0, 1)).toEqual([null, 1, -1, null]);
  expect(signs(0.5, "broken", 0.25)).toEqual([1, null, -1]);
  expect(signs(1, 1, 1)).toEqual([null, null, null]);
  expect(signs("broken", 1)).toEqual([null, null]);
  const credits = credit([groupOf(0.5, 1, 0, 1), groupOf(1, 1, 1, 1), groupOf(0, 1, 1, 1)], plainContext);
  const { batch } = buildBatch(credits, { reduction: algorithm.reduction, maskTruncated: false, maxLength: 8, skipZero: true });
  const weights = batch!.units.map(({ rows }) => rows.flatMap(({ fields }) => [...fields["weight"]!]).reduce((a, b) => a + b, 0));
  expect(weights.map((weight) => Number(weight.toFixed(6)))).toEqual([0.5, 0.5]);
});

// ---------------------------------------------------------------------------------------------------- on an engine

const answer = (prompt: number, seed: number, length: number) => {
  const numbers = (count: number, of: (i: number) => number): number[] => Array.from({ length: count }, (_, i) => of(i) % 96);
  const ids = [...numbers(10, (i) => prompt * 13 + i * 7), ...numbers(length, (i) => seed * 17 + i * 29)];
  return [{ ids: Int32Array.from(ids), trained: Int32Array.from({ length }, (_, i) => 10 + i) }];
};
const pairs = [[5, 9], [3, 3], [8, 1], [2, 6]].map(([chosen, rejected], i): EncodedPair => {
  return { chosen: answer(i, 2 * i, chosen!), rejected: answer(i, 2 * i + 1, rejected!), margin: i };
});
const labels = pairs.flatMap(({ chosen, rejected }) => [{ rows: chosen, good: true }, { rows: rejected, good: false }]);
const solutions = pairs.map(({ chosen: [row] }, i) => {
  return { ids: row!.ids, after: Int32Array.of(6, 11, row!.ids.length), labels: Float32Array.of(1, 0.5, i % 2) };
});

const cases: readonly [string, OfflineAlgorithm, Batch][] = [
  ["dpo", dpo(), pairBatch(pairs)],
  ["dpo ipo", dpo({ loss: "ipo" }), pairBatch(pairs)],
  ["kto", kto(), labelBatch(labels)],
  ["orpo", orpo(), pairBatch(pairs)],
  ["simpo", simpo({ likelihoodWeight: 0.5 }), pairBatch(pairs)],
  ["reward-model", rewardModel({ centring: 0.01 }), scoredPairBatch(pairs)],
  ["process-reward-model", processRewardModel({ reduction: "sequence-mean" }), stepBatch(solutions, "sequence-mean")],
];

test.each(cases)("%s: any cut into micro-batches gives one and the same gradient", async (_, algorithm, batch) => {
  const reward = algorithm.trains === "reward";
  const gradients = async (microBatchTokens: number) => {
    const { engine } = await goldenEngine("llama", "stored-lora", { microBatchTokens, reference: true });
    if (reward) engine.addAdapter("reward", { from: "base", rank: 4, alpha: 8, scalarHead: true, trained: true, seed: 3 });
    const run = { folder: "none", lastStep: 0 };
    const ready = await (await openReference({ algorithm, examples: [], engine, run }))(batch, []);
    const scalars = { ...ready.scalars, ...(await algorithm.scalars?.(ready, engine)) };
    const result = await engine.forwardBackward({ ...ready, scalars }, algorithm.loss, { adapter: reward ? "reward" : "policy" });
    const held = reward ? new Map([["reward", engine.directions("reward").takeGradient()]]) : heldGradients(engine);
    await engine.close();
    return { result, held, scalars };
  };
  const whole = await gradients(2048);
  for (const other of [await gradients(16), await gradients(70)]) {
    expect(other.result.loss).toBeCloseTo(whole.result.loss, 5);
    for (const [name, value] of Object.entries(whole.result.metrics)) expect(other.result.metrics[name], name).toBeCloseTo(value, 4);
    for (const [name, gradient] of whole.held) expect(difference(other.held.get(name)!, gradient).relative, name).toBeLessThan(2e-5);
  }
});

test("a loaded adapter is its own reference: at step 0 no gap, ln 2 and a gradient; the base would have been another", async () => {
  const { engine } = await goldenEngine("llama", "stored-lora", { reference: true });
  const algorithm = dpo();
  const add = await openReference({ algorithm, examples: [], engine, run: { folder: "none", lastStep: 0 } });
  const { loss, metrics } = await engine.forwardBackward(await add(pairBatch(pairs), []), algorithm.loss);
  expect(metrics["reference/gap"]).toBe(0);
  expect(loss).toBeCloseTo(Math.LN2, 6);
  expect(Math.max(...[...heldGradients(engine).values()].map((gradient) => Math.max(...gradient.map(Math.abs))))).toBeGreaterThan(1e-4);
  const rows = pairBatch(pairs).units.flatMap((unit) => [...unit.rows]);
  const [base, reference] = [await engine.logprobs(rows, { adapter: "base" }), await engine.logprobs(rows, { adapter: "reference" })];
  expect(Math.abs(base[0]![0]! - reference[0]![0]!)).toBeGreaterThan(1e-3);
  const labelled = kto();
  expect(await labelled.scalars!(labelBatch(labels), engine)).toEqual({ klBaseline: expect.closeTo(0, 5) as number });
  await engine.close();
});
