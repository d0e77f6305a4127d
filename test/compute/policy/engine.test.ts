/** The engine as a whole: what a step changes and what it may not, publication, failure, state on disk. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../../src/compute/policy/local/engine.ts";
import { copyOf } from "../../../src/compute/policy/local/model.ts";
import { grpo } from "../../../src/algo/grpo.ts";
import { mergeLora } from "../../../src/compute/models/lora.ts";
import { floats, HostTensor } from "../../../src/compute/tensor/host.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { rng } from "../../../src/random.ts";
import type { Batch, Loss, SampledSpan, TrainRow } from "../../../src/types.ts";
import { adamw, crossEntropy, goldenEngine, heldGradients, separate, storedLora, trainRow } from "../../fakes/engines.ts";
import { difference, goldenModel } from "../../fakes/golden.ts";

const opened: LocalEngine[] = [];
const folders: string[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
  for (const folder of folders) await rm(folder, { recursive: true });
}, 60_000);

type Train = Parameters<typeof goldenEngine>[1];
async function open(train: Train, options: Partial<LocalEngineOptions> = {}): Promise<LocalEngine> {
  const { engine } = await goldenEngine("llama", train, options);
  opened.push(engine);
  return engine;
}
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "engine-"));
  folders.push(path);
  return path;
}

const prompt = Array.from({ length: 12 }, (_, i) => (i * 37 + 5) % 96);
const rows = [3, 6, 5].map((length, i) =>
  trainRow(
    [...prompt, ...Array.from({ length }, (_, t) => (t * 11 + i * 29) % 96)],
    Array.from({ length }, (_, t) => prompt.length + t),
  ),
);
const batch: Batch = { units: [{ rows }, { rows: [trainRow([9, 8, 7, 6, 5], [2, 4])] }], scalars: { tokens: 16 } };

const greedy = (engine: LocalEngine): Promise<readonly SampledSpan[]> =>
  engine.sample({ prompt, count: 1, maxTokens: 16, temperature: 0, stopIds: [], keys: [rng(1)] });
const step = async (engine: LocalEngine, learningRate = adamw.learningRate): Promise<void> => {
  await engine.forwardBackward(batch, crossEntropy);
  await engine.optimStep({ ...adamw, learningRate });
};
const base64 = ({ floats: values }: HostTensor): string => Buffer.from(values.slice().buffer).toString("base64");
const bits = (engine: LocalEngine): string[] => [
  engine.weightsHash(),
  ...[...engine.trainer.moments].map(([name, { first, second }]) => `${name} ${base64(first)} ${base64(second)}`),
];

for (const train of ["fresh-lora", "stored-lora", "full"] as const) {
  test(`${train}: before the first update the ratio is 1 and KL to the reference 0, exactly`, async () => {
    const engine = await open(train, { reference: true });
    const flat = batch.units.flatMap((unit) => unit.rows);
    const [old, again, reference] = [
      await engine.logprobs(flat),
      await engine.logprobs(flat),
      await engine.logprobs(flat, { adapter: "reference" }),
    ];
    expect(again).toEqual(old);
    expect(reference).toEqual(old);
    let i = 0;
    const withFields = ({ ids, trained, temperature }: TrainRow): TrainRow => {
      const at = i++;
      const same = (value: number): Float32Array => new Float32Array(trained.length).fill(value);
      return {
        ids,
        trained,
        temperature,
        fields: { old: old[at]!, reference: reference[at]!, advantage: same(1 - at), weight: same(1 / 16) },
      };
    };
    const units = batch.units.map((unit) => ({ rows: unit.rows.map(withFields) }));
    const loss = grpo({ klCoef: 0.1 }).loss;
    const result = await engine.forwardBackward({ units, scalars: { tokens: 16 } }, loss);
    expect(result.logprobs.flat()).toEqual(old);
    expect(result.metrics).toEqual({ clipFraction: 0, ratioGap: 0, "kl/old": 0, "kl/reference": 0, "kl/referenceK1": 0 });
    await engine.optimStep(adamw);
    await engine.publish();
    expect(await engine.logprobs(flat, { adapter: "reference" })).toEqual(reference);
    expect(await engine.logprobs(flat)).not.toEqual(old);
  });
}

test("publishing counts versions, and spans carry the version they were sampled with", async () => {
  const engine = await open("fresh-lora");
  expect(engine.version).toBe(0);
  expect((await greedy(engine))[0]!.version).toBe(0);
  expect(await engine.publish()).toBe(0);
  await step(engine);
  expect(await engine.publish()).toBe(1);
  expect((await greedy(engine))[0]!.version).toBe(1);
  await step(engine);
  await step(engine);
  expect(await engine.publish()).toBe(2);
});

test("an update that does not reach the weights stops at its publication; a rate of 0 is no such update", async () => {
  const engine = await open("full");
  await engine.publish();
  await step(engine, 0);
  expect(await engine.publish()).toBe(1);
  await step(engine, 1e-30);
  await expect(engine.publish()).rejects.toThrow(
    "publish: expected the probe's log-probs to move after an update, got the same to the last bit; the update did not reach the weights",
  );
  await expect(greedy(engine)).rejects.toThrow("not published");
  expect(engine.version).toBe(1);
});

test("a sampler that reads other weights is found out", async () => {
  const engine = await open("full");
  const feeds = engine.model.feeds("policy", "all") as Record<string, HostTensor>;
  feeds["layers.1.down.weight"] = new HostTensor(feeds["layers.1.down.weight"]!.floats.slice(), feeds["layers.1.down.weight"]!.shape);
  await engine.publish();
  await step(engine, 0.1);
  await expect(engine.publish()).rejects.toThrow(
    /publish: expected sampler and trainer log-probs of the probe within 1e-4, got \d.*they do not run the same weights/,
  );
  await expect(greedy(engine)).rejects.toThrow("not published");
});

for (const train of ["full", "stored-lora"] as const) {
  test(`${train}: after an update nothing of the old weights is sampled: equal to a fresh engine with the new ones`, async () => {
    const engine = await open(train);
    const [before] = await greedy(engine);
    await greedy(engine);
    expect(engine.sampler.stats.reused).toBeGreaterThan(0);
    await step(engine, 0.03);
    await engine.publish();
    const [after] = await greedy(engine);
    const path = await folder();
    await engine.save(path);
    const fresh = await open(train, { retainBudget: 0 });
    await fresh.load(path);
    expect(fresh.weightsHash()).toBe(engine.weightsHash());
    const [wanted] = await greedy(fresh);
    expect(after!.ids).toEqual(wanted!.ids);
    expect(after!.logprobs).toEqual(wanted!.logprobs);
    expect(after!.logprobs).not.toEqual(before!.logprobs);
  });
}

test("nothing is sampled while weights change, and no weight changes while something is sampled", async () => {
  const engine = await open("full");
  await engine.forwardBackward(batch, crossEntropy);
  const running = greedy(engine);
  await expect(engine.optimStep(adamw)).rejects.toThrow("optimStep: sequences are being sampled with these weights; await them first");
  await expect(engine.publish()).rejects.toThrow("publish: sequences are being sampled with these weights; await them first");
  await expect(engine.load("nowhere")).rejects.toThrow("load: sequences are being sampled with these weights; await them first");
  await running;
  const updating = engine.optimStep(adamw);
  await new Promise((resolve) => setImmediate(resolve));
  await expect(greedy(engine)).rejects.toThrow(/sample: the weights (are being|were) updated/);
  expect((await updating).type).toBe("stepped");
  await expect(greedy(engine)).rejects.toThrow("sample: the weights were updated and not published; call publish() first");
  await engine.publish();
  expect((await greedy(engine))[0]!.ids.length).toBe(16);
});

test("an update needs gradients of its own", async () => {
  const engine = await open("full");
  await expect(engine.optimStep(adamw)).rejects.toThrow("optimStep: expected gradients from forwardBackward, got none");
  await step(engine);
  const before = bits(engine);
  await expect(engine.optimStep(adamw)).rejects.toThrow("optimStep: expected gradients from forwardBackward, got none");
  await engine.forwardBackward(batch, crossEntropy);
  // A batch that fails on the way leaves no part of its gradients behind.
  await expect(engine.forwardBackward({ ...batch, scalars: {} }, crossEntropy)).rejects.toThrow("loss scalar tokens");
  await expect(engine.optimStep(adamw)).rejects.toThrow("optimStep: expected gradients from forwardBackward, got none");
  await engine.forwardBackward(batch, crossEntropy);
  const signal = AbortSignal.abort(new Error("stopped by hand"));
  await expect(engine.forwardBackward(batch, crossEntropy, { signal })).rejects.toThrow("stopped by hand");
  await expect(engine.logprobs(rows, { signal })).rejects.toThrow("stopped by hand");
  await expect(engine.optimStep(adamw)).rejects.toThrow("optimStep: expected gradients from forwardBackward, got none");
  expect(bits(engine)).toEqual(before);
  expect((await engine.logprobs(rows)).length).toBe(3);
});

test("calls that overlap are done one after another", async () => {
  const [apart, overlapping] = [await open("full"), await open("full")];
  await apart.forwardBackward(batch, crossEntropy);
  await apart.forwardBackward(batch, crossEntropy);
  await apart.optimStep(adamw);
  const scores = await apart.logprobs(rows);
  const results = await Promise.all([
    overlapping.forwardBackward(batch, crossEntropy),
    overlapping.forwardBackward(batch, crossEntropy),
    overlapping.optimStep(adamw),
    overlapping.logprobs(rows),
  ]);
  expect(results[3]).toEqual(scores);
  expect(overlapping.weightsHash()).toBe(apart.weightsHash());
});

test("a gradient that is not finite changes no weight and no moment, and is named", async () => {
  const broken: Loss = { key: "test/nan", build: (x) => ({ loss: o.sum(o.mul(x.logprobs, o.log(x.scalar("negative")))), metrics: {} }) };
  const engine = await open("full");
  await step(engine);
  await engine.publish();
  const before = bits(engine);
  await engine.forwardBackward({ ...batch, scalars: { negative: -1 } }, broken);
  expect(await engine.optimStep(adamw)).toEqual({ type: "skipped", tensor: "embed.weight", value: NaN });
  expect(bits(engine)).toEqual(before);
  expect(engine.trainer.updates).toBe(1);
  expect((await greedy(engine))[0]!.version).toBe(1);
  await step(engine); // the gradients were cleared: the next update is clean
  expect(engine.trainer.updates).toBe(2);
  expect(await engine.publish()).toBe(2);
  const twin = await open("full");
  await step(twin);
  await step(twin);
  expect(bits(engine)).toEqual(bits(twin));
});

for (const train of ["full", "stored-lora"] as const) {
  test(`${train}: saved and loaded to the last bit, and the run goes on as if it had not stopped`, async () => {
    const engine = await open(train);
    for (let i = 0; i < 3; i++) await step(engine);
    await engine.publish();
    const path = await folder();
    await engine.save(path);
    const other = await open(train);
    await step(other, 0.1);
    await other.load(path);
    expect(bits(other)).toEqual(bits(engine));
    expect(other.trainer.updates).toBe(3);
    expect(other.version).toBe(1);
    expect(await greedy(other)).toEqual(await greedy(engine));
    for (const one of [engine, other]) for (let i = 0; i < 2; i++) await step(one);
    expect(bits(other)).toEqual(bits(engine));
    expect(await engine.publish()).toBe(await other.publish());
    expect(await greedy(other)).toEqual(await greedy(engine));
  });
}

test("a state of another shape is refused and changes nothing", async () => {
  const path = await folder();
  const lora = await open("stored-lora");
  await lora.save(path);
  const full = await open("full");
  const before = full.weightsHash();
  await expect(full.load(path)).rejects.toThrow(/embed\.weight: expected shape \[96, 32\], got nothing/);
  await expect(full.load(join(path, "nowhere"))).rejects.toThrow(/^state .*nowhere: ENOENT/);
  expect(full.weightsHash()).toBe(before);
  expect((await greedy(full))[0]!.ids.length).toBe(16);
});

test("two halves of a batch add up to the whole", async () => {
  const [whole, halves] = [await open("full"), await open("full")];
  const all = await whole.forwardBackward(batch, crossEntropy);
  const parts = [
    await halves.forwardBackward({ ...batch, units: [batch.units[0]!] }, crossEntropy),
    await halves.forwardBackward({ ...batch, units: [batch.units[1]!] }, crossEntropy),
  ];
  expect(Math.abs(parts[0]!.loss + parts[1]!.loss - all.loss)).toBeLessThan(1e-6);
  const found = heldGradients(halves);
  for (const [name, gradient] of heldGradients(whole)) expect(difference(found.get(name)!, gradient).relative, name).toBeLessThan(1e-6);
});

test("clipping bounds the update's gradient and is reported", async () => {
  const engine = await open("full");
  await engine.forwardBackward(batch, crossEntropy);
  const squared = [...heldGradients(engine).values()].reduce((sum, g) => g.reduce((a, b) => a + b * b, sum), 0);
  const result = await engine.optimStep({ ...adamw, maxGradNorm: 1e-3 });
  expect(result).toMatchObject({ type: "stepped", clipped: true });
  if (result.type === "stepped") expect(result.gradNorm / Math.sqrt(squared)).toBeCloseTo(1, 6);
  const norm = Math.sqrt([...engine.trainer.moments.values()].reduce((sum, { first }) => first.floats.reduce((a, b) => a + b * b, sum), 0));
  expect(norm / (0.1 * 1e-3)).toBeCloseTo(1, 2);
});

test("adapters are called by name", async () => {
  const plain = await open("stored-lora");
  const referenced = await open("stored-lora", { reference: true });
  expect(plain.info.adapters).toEqual(["base", "policy"]);
  expect(referenced.info.adapters).toEqual(["base", "policy", "reference"]);
  const base = await (await open("none")).logprobs(rows);
  expect(await plain.logprobs(rows, { adapter: "base" })).toEqual(base);
  expect(await plain.logprobs(rows)).not.toEqual(base);
  await expect(plain.logprobs(rows, { adapter: "reference" })).rejects.toThrow("adapter: expected one of base, policy, got reference");
  await expect(plain.logprobs(rows, { adapter: "critic" })).rejects.toThrow("adapter: expected one of base, policy, got critic");
  const [fromBase] = await plain.sample({ prompt, count: 1, maxTokens: 16, temperature: 0, stopIds: [], keys: [rng(1)], adapter: "base" });
  expect(fromBase!.ids).toEqual((await greedy(await open("none")))[0]!.ids);
  await expect((await open("none")).forwardBackward(batch, crossEntropy)).rejects.toThrow(
    "forwardBackward: the model was opened for sampling only; open it with train: full or lora",
  );
});

test("requests for several adapters at once get each its own", async () => {
  const engine = await open("stored-lora");
  const one = (adapter: string): Promise<readonly SampledSpan[]> =>
    engine.sample({ prompt, count: 1, maxTokens: 16, temperature: 0, stopIds: [], keys: [rng(1)], adapter });
  const mixed = await Promise.all(["base", "policy", "base"].map(one));
  expect(mixed[0]![0]!.ids).toEqual((await greedy(await open("none")))[0]!.ids);
  expect(mixed[1]![0]!.ids).toEqual((await greedy(await open("stored-lora")))[0]!.ids);
  expect(mixed[2]).toEqual(mixed[0]);
});

test("an adapter merged into the base reads as base plus adapter", async () => {
  const { architecture, parameters } = await goldenModel("llama");
  const adapted = await open("stored-lora");
  const merged = mergeLora(parameters, adapted.trainer.trainable, storedLora);
  const engine = await open("none", { architecture, parameters: merged });
  const [found, wanted] = [await engine.logprobs(rows), await adapted.logprobs(rows)];
  for (const [i, values] of wanted.entries()) expect(difference(found[i]!, values).max).toBeLessThan(1e-5);
  expect(merged.get("embed.weight")).toBe(parameters.get("embed.weight"));
});

test("what an engine says of itself", async () => {
  const [full, lora] = [await open("full"), await open("stored-lora")];
  expect(full.info).toMatchObject({ model: "llama", family: "llama", vocabulary: 96, contextLength: 64, parameters: full.info.trainable });
  expect(full.info.parameters).toBe([...copyOf(full.trainer.trainable).values()].reduce((n, { data }) => n + data.length, 0));
  // Rank 4, two layers: q and o 32+32, k and v 16+32, gate, up and down 64+32.
  expect(lora.info.trainable).toBe(2 * 4 * (2 * 64 + 2 * 48 + 3 * 96));
});

test("one supervised step lowers the loss of its own batch", async () => {
  for (const train of ["full", "fresh-lora"] as const) {
    const engine = await open(train);
    const losses: number[] = [];
    for (let i = 0; i < 5; i++) {
      losses.push((await engine.forwardBackward(separate(rows, { tokens: 14 }), crossEntropy)).loss);
      await engine.optimStep({ ...adamw, learningRate: 3e-3 });
    }
    expect(losses.every((loss, i) => i === 0 || loss < losses[i - 1]!)).toBe(true);
  }
});

test("weights given are weights used: the arrays are shared, not copied", async () => {
  const { architecture, parameters } = await goldenModel("llama");
  const engine = await open("full", { architecture, parameters });
  const before = await engine.logprobs(rows);
  const tensor = parameters.get("finalNorm.weight")!;
  expect(engine.trainer.trainable.get("finalNorm.weight")).toBe(tensor);
  const doubled = floats(tensor.floats.map((value) => value * 2));
  tensor.floats.set(doubled.floats);
  expect(await engine.logprobs(rows)).not.toEqual(before);
});
