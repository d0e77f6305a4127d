/** The scalar head: values and gradients against PyTorch, losses that read values beside log-probs, and what is refused. */
import { afterAll, expect, test } from "vitest";
import { scalarHeadName } from "../../../src/compute/models/scalar-head.ts";
import type { LocalEngine, LocalEngineOptions } from "../../../src/compute/policy/local/engine.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import type { AdapterOptions, Batch, Loss, TrainRow } from "../../../src/types.ts";
import { crossEntropy, goldenEngine, peftName, separate, storedLora, trainRow, type GoldenEngine } from "../../fakes/engines.ts";
import { difference, goldenJson, goldenTensors } from "../../fakes/golden.ts";

interface Values {
  readonly rows: readonly { readonly ids: readonly number[]; readonly trained: readonly number[] }[];
  readonly score: readonly number[];
  readonly loss: number;
  readonly values: readonly (readonly number[])[];
}

const opened: LocalEngine[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
}, 60_000);

const critic: AdapterOptions = { from: "policy", rank: storedLora.rank, alpha: storedLora.alpha, scalarHead: true, trained: true, seed: 7 };

/** An engine with a trained adapter "critic" on the stored LoRA matrices, and a head as given. */
async function withCritic(model: string, score: readonly number[], options: Partial<LocalEngineOptions> = {}): Promise<GoldenEngine> {
  const given = await goldenEngine(model, "stored-lora", options);
  opened.push(given.engine);
  given.engine.addAdapter("critic", critic);
  head(given.engine).set(score);
  return given;
}
const head = (engine: LocalEngine): Float32Array => engine.model.parametersOf("critic").get(scalarHeadName)!.floats;
const someHead = Array.from({ length: 32 }, (_, i) => Math.sin(3 * i) / 3);

const squares: Loss = { key: "test/squares", build: (x) => ({ loss: o.sum(o.mul(x.values, x.values)), metrics: {} }) };

/** The flat gradient cut into the adapter's parameters. */
function gradientsOf(engine: LocalEngine, adapter = "critic"): Map<string, Float32Array> {
  const flat = engine.directions(adapter).takeGradient();
  let at = 0;
  return new Map(
    [...engine.model.parametersOf(adapter)]
      .filter(([name]) => /\.lora[AB]$/.test(name) || name === scalarHeadName)
      .map(([name, { data }]) => [name, flat.subarray(at, (at += data.length))]),
  );
}

for (const model of ["llama", "qwen2"]) {
  for (const [way, options] of [
    ["all residuals", {}],
    ["layers computed again, one row at a time", { residualBudget: 0, microBatchTokens: 1 }],
  ] as const) {
    test(`${model}, ${way}: values and the gradient of their squares equal PyTorch's`, async () => {
      const golden = goldenJson<Values>(`values/${model}.json`);
      const { engine, family } = await withCritic(model, golden.score, options);
      const rows = golden.rows.map(({ ids, trained }) => trainRow(ids, trained));
      const values = await engine.values(rows, { adapter: "critic" });
      for (const [i, wanted] of golden.values.entries()) expect(difference(values[i]!, wanted).max).toBeLessThan(2e-5);
      const result = await engine.forwardBackward(separate(rows), squares, { adapter: "critic" });
      expect(Math.abs(result.loss / golden.loss - 1)).toBeLessThan(1e-5);
      expect(result.tokens.trained).toBe(golden.values.flat().length);
      const stored = await goldenTensors(`values/${model}.safetensors`);
      const found = gradientsOf(engine);
      expect(found.size).toBe(stored.size);
      for (const [name, gradient] of found) {
        const file = name === scalarHeadName ? "base_model.model.score.weight" : peftName(family, name);
        expect(difference(gradient, stored.get(file)!).relative, name).toBeLessThan(1e-4);
      }
    });
  }
}

const promptIds = Array.from({ length: 12 }, (_, i) => (i * 37 + 5) % 96);
/** Pairs: a long and a short answer to the prompt; one pair shares the prompt, one has prompts of its own. */
function pairs(): TrainRow[][] {
  const answer = (length: number, k: number): number[] => Array.from({ length }, (_, t) => (t * 11 + k * 29) % 96);
  const row = (start: readonly number[], length: number, k: number): TrainRow => {
    const ids = [...start, ...answer(length, k)];
    const trained = Array.from({ length }, (_, t) => start.length + t);
    const fields = { weight: trained.map((t) => Math.cos(t + k)), sign: trained.map(() => (k % 2 === 0 ? 1 : -1)) };
    return trainRow(ids, trained, { fields });
  };
  return [
    [row(promptIds, 6, 0), row(promptIds, 3, 1)],
    [row([4, 9, 2], 5, 2), row([7, 1, 3], 8, 3)],
    [row(promptIds.slice(0, 9), 2, 4), row(promptIds.slice(0, 9), 7, 5)],
  ];
}
const pairBatch = (units = pairs()): Batch => ({ units: units.map((rows) => ({ rows })), scalars: { beta: 0.7 } });

/** Reads log-probs, values, rows and units: -log sigmoid of a unit's signed sum of both. */
const mixed: Loss = {
  key: "test/mixed",
  build: (x) => {
    const scores = o.add(o.mul(x.values, x.field("weight")), o.mul(x.logprobs, 0.1));
    const margins = o.segmentSum(o.mul(o.mul(scores, x.field("sign")), x.scalar("beta")), x.unit, x.units);
    return { loss: o.neg(o.sum(o.log(o.sigmoid(margins)))), metrics: { units: o.sum(x.units), rows: o.sum(x.rows) } };
  },
};

test("a loss over log-probs, values and units: its gradient equals differences of the loss", async () => {
  const { engine } = await withCritic("llama", someHead);
  const batch = pairBatch();
  const first = await engine.forwardBackward(batch, mixed, { adapter: "critic" });
  expect(first.metrics).toEqual({ units: 3, rows: 6 });
  // The same number from the readings themselves.
  const flat = batch.units.flatMap(({ rows }) => rows);
  const values = await engine.values(flat, { adapter: "critic" });
  const logprobs = await engine.logprobs(flat, { adapter: "critic" });
  let byHand = 0;
  for (let u = 0; u < 3; u++) {
    let margin = 0;
    for (const i of [2 * u, 2 * u + 1]) {
      const { weight, sign } = flat[i]!.fields;
      values[i]!.forEach((value, t) => (margin += 0.7 * sign![t]! * (value * weight![t]! + 0.1 * logprobs[i]![t]!)));
    }
    byHand += Math.log(1 + Math.exp(-margin));
  }
  expect(Math.abs(first.loss / byHand - 1)).toBeLessThan(1e-4);
  const gradients = gradientsOf(engine);
  for (const name of ["layers.0.q.loraA", "layers.1.v.loraB", "layers.0.down.loraB", "layers.1.gate.loraA", scalarHeadName]) {
    const gradient = gradients.get(name)!;
    const at = gradient.reduce((best, value, i) => (Math.abs(value) > Math.abs(gradient[best]!) ? i : best), 0);
    const weight = engine.model.parametersOf("critic").get(name)!.floats;
    const middle = weight[at]!;
    const h = 2 ** -7;
    const loss = async (offset: number): Promise<number> => {
      weight[at] = middle + offset;
      return (await engine.forwardBackward(batch, mixed, { adapter: "critic" })).loss;
    };
    const near = (await loss(h)) - (await loss(-h));
    const far = (await loss(2 * h)) - (await loss(-2 * h));
    weight[at] = middle;
    expect(Math.abs((8 * near - far) / (12 * h) / gradient[at]! - 1), name).toBeLessThan(2e-3);
  }
});

test("units are never separated: a pair loss is the same for every cut into micro-batches", async () => {
  const outcomes: { loss: number; flat: Float32Array }[] = [];
  for (const microBatchTokens of [4096, 60, 1]) {
    const { engine } = await withCritic("llama", someHead, { microBatchTokens });
    const { loss } = await engine.forwardBackward(pairBatch(), mixed, { adapter: "critic" });
    outcomes.push({ loss, flat: engine.directions("critic").takeGradient() });
  }
  const [whole, ...cut] = outcomes;
  for (const { loss, flat } of cut) {
    expect(Math.abs(loss / whole!.loss - 1)).toBeLessThan(1e-5);
    expect(difference(flat, whole!.flat).relative).toBeLessThan(1e-5);
  }
});

test("a loss over values alone runs no vocabulary head", async () => {
  const { engine } = await withCritic("llama", someHead);
  const names = ["embed.weight", "head.weight"];
  const rows = pairs().flat();
  // What the vocabulary head reads beside the final norm is broken: values must not notice.
  const feeds = engine.model.feeds("critic", "head") as Record<string, unknown>;
  for (const name of names) delete feeds[name];
  await engine.forwardBackward(separate(rows), squares, { adapter: "critic" });
  const { logprobs } = await engine.forwardBackward(separate(rows), squares, { adapter: "critic" });
  expect(logprobs.map((unit) => unit.map(({ length }) => length))).toEqual(rows.map(() => [0]));
  await expect(engine.forwardBackward(separate(rows, { tokens: 1 }), crossEntropy, { adapter: "critic" })).rejects.toThrow("embed.weight");
});

test("values do not depend on the temperature, and may be asked after the last token", async () => {
  const { engine } = await withCritic("llama", someHead);
  const at = (temperature: number): TrainRow => trainRow([5, 3, 8, 2], [1, 4], { temperature });
  const [one, two] = await engine.values([at(1), at(0.3)], { adapter: "critic" });
  expect(one).toEqual(two);
  // The state after [5, 3, 8, 2] is the state before the fifth token of a longer row.
  const [longer] = await engine.values([trainRow([5, 3, 8, 2, 60], [1, 4])], { adapter: "critic" });
  expect(difference(longer!, one!).max).toBeLessThan(1e-6);
});

test("what a head cannot do is refused by name", async () => {
  const { engine } = await withCritic("llama", someHead);
  const rows = [trainRow([5, 3, 8], [2, 3])];
  await expect(engine.values(rows, { adapter: "policy" })).rejects.toThrow(
    "values: expected an adapter with a scalar head, got policy, which has none; add the adapter with scalarHead: true",
  );
  await expect(engine.forwardBackward(separate(rows), squares)).rejects.toThrow(
    "loss test/squares: expected an adapter with a scalar head, got policy, which has none; add the adapter with scalarHead: true",
  );
  await expect(engine.values(rows, { adapter: "judge" })).rejects.toThrow("adapter: expected one of base, policy, critic, got judge");
  const end = "trained[1]: expected an increasing position in 1..2, got 3; only a loss that reads values alone may train the state after";
  await expect(engine.logprobs(rows)).rejects.toThrow(end);
  await expect(engine.forwardBackward(separate(rows, { tokens: 1 }), crossEntropy)).rejects.toThrow(end);
  await expect(engine.forwardBackward(separate(rows, { beta: 1 }), mixed, { adapter: "critic" })).rejects.toThrow(end);
  await expect(engine.values([trainRow([5, 3, 8], [4])], { adapter: "critic" })).rejects.toThrow(
    "training row 0 trained[0]: expected an increasing position in 1..3, got 4",
  );
});
