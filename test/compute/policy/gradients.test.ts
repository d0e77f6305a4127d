/** Losses, log-probs, entropies and every parameter's gradient against PyTorch; and that no way of computing them changes them. */
import { afterAll, expect, test } from "vitest";
import { normal, rng } from "../../../src/random.ts";
import type { LocalEngine, LocalEngineOptions } from "../../../src/compute/policy/local/engine.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import type { Batch, Loss, TrainRow } from "../../../src/types.ts";
import { crossEntropy, goldenEngine, heldGradients, separate, storedGradients, together, trainRow } from "../../fakes/engines.ts";
import { difference, goldenJson, goldenTensors } from "../../fakes/golden.ts";

interface Sft {
  readonly model: string;
  readonly rows: readonly { readonly ids: readonly number[]; readonly trained: readonly number[] }[];
  readonly trainedTokens: number;
  readonly loss: number;
  readonly logprobs: readonly (readonly number[])[];
  readonly entropies: readonly (readonly number[])[];
}

const opened: LocalEngine[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
}, 60_000);

/** Sums each row's entropies into a metric of its own, so that rows can be told apart; the loss does not depend on them. */
const withEntropy: Loss = {
  key: "test/entropy-metrics",
  build: (x) => ({
    loss: o.neg(o.div(o.sum(x.logprobs), x.scalar("tokens"))),
    metrics: { entropy: o.sum(x.entropy), weighted: o.sum(o.mul(x.entropy, x.field("weight"))) },
  }),
};

for (const name of ["gpt2", "llama", "llama3", "qwen2", "qwen3", "llama-lora", "qwen2-lora"]) {
  test(`${name}: supervised loss and gradients equal PyTorch's`, async () => {
    const golden = goldenJson<Sft>(`sft/${name}.json`);
    const given = await goldenEngine(golden.model, name.endsWith("-lora") ? "stored-lora" : "full");
    opened.push(given.engine);
    let n = 0;
    const weights = golden.rows.map(({ trained }) => trained.map(() => normal(rng(1), n++)));
    const rows = golden.rows.map(({ ids, trained }, i) => trainRow(ids, trained, { fields: { weight: weights[i]! } }));
    const result = await given.engine.forwardBackward(separate(rows, { tokens: golden.trainedTokens }), withEntropy);
    expect(Math.abs(result.loss - golden.loss)).toBeLessThan(1e-5);
    for (const [i, logprobs] of golden.logprobs.entries()) expect(difference(result.logprobs[i]![0]!, logprobs).max).toBeLessThan(5e-5);
    const [entropies, flat] = [golden.entropies.flat(), weights.flat()];
    expect(Math.abs(result.metrics["entropy"]! - entropies.reduce((a, b) => a + b, 0))).toBeLessThan(1e-4);
    expect(Math.abs(result.metrics["weighted"]! - entropies.reduce((a, b, i) => a + b * flat[i]!, 0))).toBeLessThan(1e-4);
    expect(result.tokens.trained).toBe(golden.trainedTokens);
    const stored = await goldenTensors(`sft/${name}.safetensors`);
    const found = storedGradients(given);
    expect([...found.keys()].sort()).toEqual([...stored.keys()].sort());
    for (const [tensor, gradient] of stored) expect(difference(found.get(tensor)!, gradient).relative, tensor).toBeLessThan(1e-4);
  });
}

/** Reads log-prob, entropy, rows and a field, so that all ways into the loss carry a gradient. */
const rich: Loss = {
  key: "test/rich",
  build: (x) => {
    const weighted = o.mul(x.logprobs, x.field("weight"));
    const perRow = o.segmentSum(o.exp(o.mul(x.logprobs, 0.2)), x.row, x.rows);
    const bonus = o.mul(o.sum(x.entropy), 0.3);
    return {
      loss: o.div(o.sub(o.add(o.sum(weighted), o.sum(o.mul(perRow, perRow))), bonus), x.scalar("tokens")),
      metrics: { rows: o.sum(x.rows) },
    };
  },
};

/** Two groups: 11 and 14 shared prompt tokens, answers of unequal length, one row that is trained in two spans. */
function groups(): TrainRow[][] {
  const key = rng(5, "rows");
  let n = 0;
  const ids = (count: number): number[] => Array.from({ length: count }, () => Math.floor(Math.abs(normal(key, n++)) * 30) % 96);
  return [
    [11, [5, 2, 9]],
    [14, [3, 1, 7, 4]],
  ].map(([promptLength, answers]) => {
    const prompt = ids(promptLength as number);
    return (answers as number[]).map((length, i) => {
      const trained = Array.from({ length }, (_, t) => prompt.length + t).filter((_, t) => !(i === 2 && (t === 2 || t === 3)));
      return trainRow([...prompt, ...ids(length)], trained, { temperature: 0.8, fields: { weight: trained.map((t) => Math.sin(t + i)) } });
    });
  });
}

const shared = (): Batch => ({ units: groups().map((rows) => ({ rows })), scalars: { tokens: 30 } });
const alone = (): Batch => separate(groups().flat(), { tokens: 30 });

const norm = (values: Float32Array): number => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));

interface Outcome {
  readonly loss: number;
  readonly logprobs: readonly number[];
  readonly gradients: ReadonlyMap<string, Float32Array>;
  readonly processed: number;
}

async function outcome(
  model: string,
  train: "full" | "stored-lora",
  { batch, ...options }: Partial<LocalEngineOptions> & { batch: Batch },
): Promise<Outcome> {
  const { engine } = await goldenEngine(model, train, options);
  const result = await engine.forwardBackward(batch, rich);
  const gradients = heldGradients(engine);
  await engine.close();
  return {
    loss: result.loss,
    logprobs: result.logprobs.flat().flatMap((values) => [...values]),
    gradients,
    processed: result.tokens.processed,
  };
}

type Ways = Readonly<Record<string, Partial<LocalEngineOptions> & { batch: () => Batch }>>;
const someWays: Ways = {
  "work done again, with shared prompts": { batch: shared, residualBudget: 0 },
  "head in chunks of three rows, shared prompts": { batch: shared, logitBudget: 96 * 4 * 6 },
  "one row at a time": { batch: alone, microBatchTokens: 1 },
};
const allWays: Ways = {
  ...someWays,
  "work done again in the backward pass": { batch: alone, residualBudget: 0 },
  "head in chunks of one row": { batch: alone, logitBudget: 96 * 4 * 2 },
  "one group at a time": { batch: shared, microBatchTokens: 1 },
  "micro-batches of two or three rows": { batch: alone, microBatchTokens: 50 },
  "shared prompts": { batch: shared },
};

for (const [model, train] of [
  ["llama", "full"],
  ["llama", "stored-lora"],
  ["gpt2", "full"],
  ["qwen3", "full"],
  ["qwen2", "stored-lora"],
] as const) {
  test(`${model} ${train}: the same gradients in every way`, async () => {
    const plain = await outcome(model, train, { batch: alone() });
    expect(plain.processed).toBe(7 * 21);
    for (const [name, { batch, ...options }] of Object.entries(model === "llama" ? allWays : someWays)) {
      const other = await outcome(model, train, { ...options, batch: batch() });
      expect(Math.abs(other.loss / plain.loss - 1), name).toBeLessThan(1e-5);
      expect(difference(other.logprobs, plain.logprobs).max, name).toBeLessThan(1e-5);
      const largest = Math.max(...[...plain.gradients.values()].map(norm));
      for (const [tensor, gradient] of plain.gradients) {
        const gap = norm(gradient.map((value, i) => value - other.gradients.get(tensor)![i]!));
        // GPT-2's key bias shifts all scores of a query alike: its gradient is 0 but for rounding, so norms have a floor.
        expect(gap / Math.max(norm(gradient), 1e-2 * largest), `${name}: ${tensor}`).toBeLessThan(1e-5);
      }
    }
  });
}

test("a shared prompt is computed once", async () => {
  const { processed } = await outcome("llama", "full", { batch: shared() });
  // Prefixes of 10 and 13 tokens, 2 groups x 4 slots x at most 10 tokens (the longest answer and the last prompt token).
  expect(processed).toBe(2 * 13 + 8 * 10);
});

test("a loss over entropies alone: its gradient equals differences of the loss", async () => {
  const bonus: Loss = {
    key: "test/entropy-bonus",
    build: (x) => ({ loss: o.mul(o.sum(o.mul(x.entropy, x.field("weight"))), -0.1), metrics: {} }),
  };
  const { engine } = await goldenEngine("llama", "stored-lora");
  const batch = shared();
  await engine.forwardBackward(batch, bonus);
  const gradients = heldGradients(engine);
  for (const name of ["layers.0.q.loraA", "layers.1.v.loraB", "layers.0.down.loraB", "layers.1.gate.loraA"]) {
    const gradient = gradients.get(name)!;
    const at = gradient.reduce((best, value, i) => (Math.abs(value) > Math.abs(gradient[best]!) ? i : best), 0);
    const weight = engine.trainer.trainable.get(name)!.floats;
    const middle = weight[at]!;
    const h = 2 ** -6;
    const loss = async (offset: number): Promise<number> => {
      weight[at] = middle + offset;
      return (await engine.forwardBackward(batch, bonus)).loss;
    };
    const near = (await loss(h)) - (await loss(-h));
    const far = (await loss(2 * h)) - (await loss(-2 * h));
    weight[at] = middle;
    expect(Math.abs((8 * near - far) / (12 * h) / gradient[at]! - 1), name).toBeLessThan(1e-3);
  }
  await engine.close();
});

test("a loss may read log-probs and fields of coupled rows: a pair in one unit", async () => {
  const pair: Loss = {
    key: "test/pair",
    build: (x) => {
      const sums = o.segmentSum(o.mul(x.logprobs, x.field("sign")), x.row, x.rows);
      return { loss: o.neg(o.log(o.sigmoid(o.mul(o.sum(sums), x.scalar("beta"))))), metrics: { margin: o.sum(sums) } };
    },
  };
  const { engine } = await goldenEngine("llama", "full");
  const rows = [1, -1].map((sign) =>
    trainRow([3, 1, 4, 1, 5, 9, 2, 6, 5, sign === 1 ? 30 : 50, 7], [9, 10], { fields: { sign: [sign, sign] } }),
  );
  const result = await engine.forwardBackward(together(rows, { beta: 0.1 }), pair);
  const [chosen, rejected] = result.logprobs[0]!.map((values) => values.reduce((a, b) => a + b, 0));
  expect(result.metrics["margin"]!).toBeCloseTo(chosen! - rejected!, 4);
  expect(result.loss).toBeCloseTo(Math.log(1 + Math.exp(-0.1 * (chosen! - rejected!))), 5);
  await engine.close();
});

test("rows that cannot be trained on are refused before anything runs", async () => {
  const { engine } = await goldenEngine("llama", "full");
  const batch = (row: TrainRow): Batch => separate([row], { tokens: 1 });
  const refused = (row: TrainRow, message: string): Promise<void> =>
    expect(engine.forwardBackward(batch(row), crossEntropy)).rejects.toThrow(message);
  await refused(trainRow([1, 2, 96], [1]), "training row 0 position 2: expected a token id below 96, got 96");
  await refused(trainRow([1, 2, -1], [1]), "training row 0 position 2: expected a token id below 96, got -1");
  await refused(trainRow(new Array<number>(65).fill(1), [1]), "training row 0: expected at most 64 tokens (the model's context), got 65");
  await refused(trainRow([1, 2], []), "training row 0: expected at least one trained token, got 0");
  await refused(trainRow([1, 2], [0]), "training row 0 trained[0]: expected an increasing position in 1..1, got 0");
  await refused(trainRow([1, 2, 3], [2, 2]), "training row 0 trained[1]: expected an increasing position in 1..2, got 2");
  await refused(trainRow([1, 2], [1], { temperature: 0 }), "training row 0 temperature: expected above 0, got 0");
  await expect(engine.forwardBackward(separate([trainRow([1, 2], [1])]), crossEntropy)).rejects.toThrow(
    "loss scalar tokens: expected a number in batch.scalars, got none",
  );
  await expect(engine.forwardBackward(batch(trainRow([1, 2], [1])), rich)).rejects.toThrow(
    "training row 0 field weight: expected 1 values, one for each trained token, got none",
  );
  await expect(
    engine.optimStep({ learningRate: 1, beta1: 0.9, beta2: 0.9, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 0 }),
  ).rejects.toThrow("optimStep: expected gradients from forwardBackward, got none");
  await engine.close();
});
