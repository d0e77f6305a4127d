/** Several adapters on one base: each trained by itself, blended, kept in states, and moved along directions. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { scalarHeadName } from "../../../src/compute/models/scalar-head.ts";
import type { LocalEngine, LocalEngineOptions } from "../../../src/compute/policy/local/engine.ts";
import { hashOf } from "../../../src/compute/policy/local/state.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { rng } from "../../../src/random.ts";
import type { AdapterOptions, Batch, Loss } from "../../../src/types.ts";
import { adamw, crossEntropy, goldenEngine, separate, storedLora, trainRow } from "../../fakes/engines.ts";

const opened: LocalEngine[] = [];
const folders: string[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
  for (const folder of folders) await rm(folder, { recursive: true });
}, 60_000);

async function open(train: Parameters<typeof goldenEngine>[1], options: Partial<LocalEngineOptions> = {}): Promise<LocalEngine> {
  const { engine } = await goldenEngine("llama", train, options);
  opened.push(engine);
  return engine;
}
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "adapters-"));
  folders.push(path);
  return path;
}

const { rank, alpha } = storedLora;
const critic: AdapterOptions = { from: "base", rank, alpha, scalarHead: true, trained: true, seed: 7 };
const rows = [3, 5, 4].map((length, i) =>
  trainRow(
    Array.from({ length: 6 + length }, (_, t) => (t * 31 + i * 17) % 96),
    Array.from({ length }, (_, t) => 6 + t),
    { fields: { return: Array.from({ length }, (_, t) => Math.cos(t + i)) } },
  ),
);
const batch: Batch = separate(rows, { tokens: 12 });
const valueLoss: Loss = {
  key: "test/value",
  build: (x) => {
    const gap = o.sub(x.values, x.field("return"));
    return { loss: o.div(o.sum(o.mul(gap, gap)), x.scalar("tokens")), metrics: {} };
  },
};
const bitsOf = (engine: LocalEngine, name: string): string => hashOf(engine.model.parametersOf(name));
const train = async (engine: LocalEngine, adapter: string, loss: Loss): Promise<void> => {
  await engine.forwardBackward(batch, loss, { adapter });
  expect((await engine.optimStep({ ...adamw, adapter })).type).toBe("stepped");
};
const greedy = (engine: LocalEngine, adapter?: string) =>
  engine.sample({
    prompt: [4, 8, 15, 16, 23, 42, 5, 6, 7],
    count: 1,
    maxTokens: 12,
    temperature: 0,
    stopIds: [],
    keys: [rng(1)],
    ...(adapter === undefined ? {} : { adapter }),
  });

test("adapters trained in turns do not touch each other, the policy or the base", async () => {
  const engine = await open("stored-lora", { reference: true });
  engine.addAdapter("critic", critic);
  engine.addAdapter("second", { ...critic, seed: 8 });
  engine.addAdapter("still", { ...critic, trained: false });
  expect(engine.info.adapters).toEqual(["base", "policy", "reference", "critic", "second", "still"]);
  const names = ["base", "policy", "reference", "critic", "second", "still"];
  const hashes = (): string[] => names.map((name) => bitsOf(engine, name));
  const changes = async (body: () => Promise<void>): Promise<string[]> => {
    const before = hashes();
    await body();
    const after = hashes();
    return names.filter((_, i) => before[i] !== after[i]);
  };
  expect(await changes(() => train(engine, "critic", valueLoss))).toEqual(["critic"]);
  // The critic's update leaves the policy published: sampling goes on, at the same version.
  expect((await greedy(engine))[0]!.version).toBe(0);
  expect(await changes(() => train(engine, "second", valueLoss))).toEqual(["second"]);
  expect(await changes(() => train(engine, "policy", crossEntropy))).toEqual(["policy"]);
  await engine.publish();
  // Gradients of one are held while another is trained.
  await engine.forwardBackward(batch, valueLoss, { adapter: "critic" });
  expect(await changes(() => train(engine, "second", valueLoss))).toEqual(["second"]);
  expect(await changes(async () => void (await engine.optimStep({ ...adamw, adapter: "critic" })))).toEqual(["critic"]);
  // The same as if each had been alone.
  const alone = await open("stored-lora");
  alone.addAdapter("critic", critic);
  for (let i = 0; i < 2; i++) await train(alone, "critic", valueLoss);
  expect(bitsOf(alone, "critic")).toBe(bitsOf(engine, "critic"));
  expect(alone.weightsHash()).not.toBe(engine.weightsHash());
});

test("training a critic lowers its loss and moves its head", async () => {
  const engine = await open("fresh-lora");
  engine.addAdapter("critic", critic);
  const before = engine.model.parametersOf("critic").get(scalarHeadName)!.floats.slice();
  const losses: number[] = [];
  for (let i = 0; i < 6; i++) {
    losses.push((await engine.forwardBackward(batch, valueLoss, { adapter: "critic" })).loss);
    await engine.optimStep({ ...adamw, adapter: "critic" });
  }
  expect(losses.every((loss, i) => i === 0 || loss < losses[i - 1]!)).toBe(true);
  expect(engine.model.parametersOf("critic").get(scalarHeadName)!.floats).not.toEqual(before);
});

test("a fresh adapter says what the base says; its head is small and the same for the same seed", async () => {
  const engine = await open("stored-lora");
  engine.addAdapter("a", critic);
  engine.addAdapter("b", critic);
  engine.addAdapter("c", { ...critic, seed: 9 });
  expect(await engine.logprobs(rows, { adapter: "a" })).toEqual(await engine.logprobs(rows, { adapter: "base" }));
  const [a, b, c] = [
    await engine.values(rows, { adapter: "a" }),
    await engine.values(rows, { adapter: "b" }),
    await engine.values(rows, { adapter: "c" }),
  ];
  expect(b).toEqual(a);
  expect(c).not.toEqual(a);
  const head = engine.model.parametersOf("a").get(scalarHeadName)!;
  expect(head.shape).toEqual([1, 32]);
  const deviation = Math.sqrt(head.floats.reduce((sum, x) => sum + x * x, 0) / 32);
  expect(deviation * 33).toBeGreaterThan(0.6); // normal with deviation 1 / 33
  expect(deviation * 33).toBeLessThan(1.5);
});

test("a critic copied from a reward model begins with its values, and leaves it as it is", async () => {
  const engine = await open("fresh-lora");
  engine.addAdapter("reward", critic);
  for (let i = 0; i < 3; i++) await train(engine, "reward", valueLoss);
  const reward = bitsOf(engine, "reward");
  engine.addAdapter("critic", { ...critic, from: "reward", seed: 99 });
  expect(await engine.values(rows, { adapter: "critic" })).toEqual(await engine.values(rows, { adapter: "reward" }));
  await train(engine, "critic", valueLoss);
  expect(bitsOf(engine, "reward")).toBe(reward);
  expect(bitsOf(engine, "critic")).not.toBe(reward);
  engine.addAdapter("plain", { ...critic, from: "reward", scalarHead: false });
  await expect(engine.values(rows, { adapter: "plain" })).rejects.toThrow("got plain, which has none");
});

test("adapters that cannot be are refused", async () => {
  const engine = await open("stored-lora", { reference: true });
  engine.addAdapter("still", { ...critic, trained: false });
  const refuse = (name: string, options: Partial<AdapterOptions>, message: string): void =>
    expect(() => engine.addAdapter(name, { ...critic, ...options })).toThrow(message);
  refuse("still", {}, "addAdapter still: expected a name that is not taken, got one of base, policy, reference, still");
  refuse("policy", {}, "a name that is not taken");
  refuse("a/b", {}, 'addAdapter a/b: expected a name of letters, digits, - and _, got "a/b"');
  refuse("x", { from: "judge" }, "adapter: expected one of base, policy, reference, still, got judge");
  refuse("x", { from: "policy", rank: 8 }, "addAdapter x: expected rank 4 and alpha 8 as policy has, got 8 and 8; give these, or from");
  refuse("x", { rank: 0 }, "expected a positive integer, got 0");
  refuse("x", { alpha: 0 }, "addAdapter x alpha: expected above 0, got 0");
  await expect(engine.forwardBackward(batch, valueLoss, { adapter: "still" })).rejects.toThrow(
    "forwardBackward adapter: expected a trained adapter, got still, which is frozen; add it with trained: true",
  );
  await expect(engine.optimStep({ ...adamw, adapter: "still" })).rejects.toThrow("optimStep adapter: expected a trained adapter");
  await expect(engine.forwardBackward(batch, valueLoss, { adapter: "judge" })).rejects.toThrow("adapter: expected one of");
  expect(() => engine.directions("reference")).toThrow("directions adapter: expected a trained adapter, got reference, which is frozen");
  const full = await open("full");
  expect(() => full.addAdapter("critic", critic)).toThrow(
    "addAdapter critic: expected a base that is not trained itself (train: lora or none), got train: full; its adapters",
  );
  // On a model opened for sampling, a reward model can be trained.
  const sampling = await open("none");
  sampling.addAdapter("reward", critic);
  await train(sampling, "reward", valueLoss);
});

test("blending: keep 0 copies, 0.75 averages, and the plain base is an adapter with B zero", async () => {
  const engine = await open("fresh-lora", { reference: true });
  await train(engine, "policy", crossEntropy);
  await engine.publish();
  const policy = engine.weightsHash();
  expect(await engine.logprobs(rows, { adapter: "reference" })).toEqual(await engine.logprobs(rows, { adapter: "base" }));
  engine.blendAdapter("policy", "reference", 0.75);
  const name = "layers.1.up.loraB";
  const of = (adapter: string, key = name): Float32Array => engine.model.parametersOf(adapter).get(key)!.floats.slice();
  expect([...of("reference")]).toEqual([...of("policy").map((value) => 0.25 * value)]);
  expect(of("reference", "layers.1.up.loraA")).toEqual(of("policy", "layers.1.up.loraA"));
  const first = of("reference");
  await train(engine, "policy", crossEntropy);
  engine.blendAdapter("policy", "reference", 0.75);
  const now = of("policy");
  expect(of("reference").every((value, i) => Math.abs(value - (0.75 * first[i]! + 0.25 * now[i]!)) <= 1e-7)).toBe(true);
  expect(engine.weightsHash()).not.toBe(policy);
  engine.blendAdapter("policy", "reference", 0);
  expect(bitsOf(engine, "reference")).toBe(bitsOf(engine, "policy"));
  expect(await engine.logprobs(rows, { adapter: "reference" })).toEqual(await engine.logprobs(rows));
  engine.blendAdapter("base", "reference", 0);
  expect(await engine.logprobs(rows, { adapter: "reference" })).toEqual(await engine.logprobs(rows, { adapter: "base" }));
  // Backwards: the policy returns to what the reference holds, and that must be published.
  await engine.publish();
  engine.blendAdapter("reference", "policy", 0);
  await expect(greedy(engine)).rejects.toThrow("not published");
  await engine.publish();
  expect(await engine.logprobs(rows)).toEqual(await engine.logprobs(rows, { adapter: "base" }));
});

test("blending on full fine-tuning works on the copies, and never changes what it blends from", async () => {
  const engine = await open("full", { reference: true });
  const start = bitsOf(engine, "reference");
  await train(engine, "policy", crossEntropy);
  const policy = engine.weightsHash();
  expect(bitsOf(engine, "reference")).toBe(start);
  engine.blendAdapter("policy", "reference", 1);
  expect(bitsOf(engine, "reference")).toBe(start);
  engine.blendAdapter("policy", "reference", 0.5);
  expect(bitsOf(engine, "reference")).not.toBe(start);
  engine.blendAdapter("policy", "reference", 0);
  expect(bitsOf(engine, "reference")).toBe(policy);
  expect(engine.weightsHash()).toBe(policy);
});

test("blends that mean nothing are refused", async () => {
  const engine = await open("stored-lora", { reference: true });
  engine.addAdapter("wide", { ...critic, rank: 6 });
  const refuse = (from: string, to: string, keep: number, message: string): void =>
    expect(() => engine.blendAdapter(from, to, keep)).toThrow(message);
  refuse("policy", "reference", 1.5, "blendAdapter policy to reference keep: expected a number in 0..1, got 1.5");
  refuse("policy", "reference", NaN, "got NaN");
  refuse("policy", "base", 0, "blendAdapter policy to base: expected an adapter to change, got the base, which never changes");
  refuse("policy", "policy", 0, "expected two adapters, got one");
  refuse("policy", "wide", 0, "expected wide with rank 4, alpha 8 on q k v o gate up down as policy has, got rank 6, alpha 8");
  refuse("policy", "old", 0, "adapter: expected one of base, policy, reference, wide, got old");
});

test("what was sampled with an adapter is forgotten when its weights change", async () => {
  const engine = await open("stored-lora", { reference: true });
  const [before] = await greedy(engine, "reference");
  await greedy(engine, "reference");
  engine.blendAdapter("base", "reference", 0);
  const reused = engine.sampler.stats.reused;
  const [after] = await greedy(engine, "reference");
  expect(engine.sampler.stats.reused).toBe(reused);
  expect(after!.logprobs).not.toEqual(before!.logprobs);
  expect(after!.ids).toEqual((await greedy(engine, "base"))[0]!.ids);
});

test("directions: a flat gradient, a move that must be published, and a move by nothing", async () => {
  const engine = await open("stored-lora");
  await engine.publish();
  const directions = engine.directions();
  expect(() => directions.takeGradient()).toThrow("takeGradient: expected gradients from forwardBackward, got none");
  const { loss } = await engine.forwardBackward(batch, crossEntropy);
  const parts = [...engine.trainer.trainable.keys()].map((name) => engine.trainer.gradient(name));
  const gradient = directions.takeGradient();
  expect([...gradient]).toEqual(parts.flatMap((part) => [...part]));
  expect(() => directions.takeGradient()).toThrow("got none");
  directions.move(gradient, 0);
  directions.move(new Float32Array(gradient.length), 1);
  expect(engine.trainer.updates).toBe(0);
  expect((await greedy(engine))[0]!.version).toBe(0);
  // First order: the loss falls by scale times the squared norm.
  const squared = gradient.reduce((sum, g) => sum + g * g, 0);
  const scale = 1e-3 / squared;
  directions.move(gradient, -scale);
  expect(engine.trainer.updates).toBe(1);
  await expect(greedy(engine)).rejects.toThrow("not published");
  expect(await engine.publish()).toBe(1);
  const after = (await engine.forwardBackward(batch, crossEntropy)).loss;
  expect((loss - after) / 1e-3).toBeCloseTo(1, 1);
  const before = engine.weightsHash();
  expect(() => directions.move(gradient.subarray(1), 1)).toThrow(`move direction: expected ${gradient.length} numbers, got`);
  expect(() => directions.move(gradient, NaN)).toThrow("move scale: expected a finite number, got NaN");
  expect(() => directions.move(gradient.map((g, i) => (i === 3 ? Infinity : g)), 1)).toThrow("move direction[3]: expected a finite number");
  expect(engine.weightsHash()).toBe(before);
  const running = engine.logprobs(rows);
  expect(() => directions.move(gradient, 1)).toThrow("move: the engine is at work; await the running call first");
  await running;
  const sampling = greedy(engine);
  expect(() => directions.move(gradient, 1)).toThrow("move: sequences are being sampled with these weights");
  await sampling;
});

/** Weights, moments and counters of all adapters. */
async function stateOf(engine: LocalEngine): Promise<Record<string, string>> {
  const path = await folder();
  await engine.save(path);
  const state = JSON.parse(await readFile(join(path, "state.json"), "utf8")) as { adapters: Record<string, object> };
  const names = Object.keys(state.adapters).flatMap((name) => [`adapter-${name}`, `adapter-${name}.moments`]);
  const files: Record<string, string> = { "state.json": JSON.stringify(state) };
  for (const name of ["weights", "moments", ...names]) {
    const bytes = await readFile(join(path, `${name}.safetensors`)).catch(() => Buffer.from("none"));
    files[name] = bytes.toString("base64");
  }
  return files;
}

for (const kind of ["fresh-lora", "stored-lora"] as const) {
  test(`${kind}: a state keeps every adapter and a blended reference to the last bit`, async () => {
    const make = async (): Promise<LocalEngine> => {
      const engine = await open(kind, { reference: true });
      engine.addAdapter("critic", critic);
      engine.addAdapter("reward", { ...critic, trained: false, seed: 3 });
      return engine;
    };
    const round = async (engine: LocalEngine): Promise<void> => {
      await train(engine, "critic", valueLoss);
      await train(engine, "policy", crossEntropy);
      engine.blendAdapter("policy", "reference", 0.9);
      await engine.publish();
    };
    const engine = await make();
    for (let i = 0; i < 2; i++) await round(engine);
    const path = await folder();
    await engine.save(path);
    const saved = await stateOf(engine);
    expect(Object.keys(saved)).toContain("adapter-critic.moments");
    // Into an engine with the same adapters, and into one that has none yet.
    const others = [await make(), await open(kind, { reference: true })];
    await round(others[0]!);
    for (const other of others) {
      await other.load(path);
      expect(await stateOf(other)).toEqual(saved);
      expect(other.version).toBe(2);
    }
    expect([...others[1]!.info.adapters].sort()).toEqual(["base", "critic", "policy", "reference", "reward"]);
    for (const one of [engine, ...others]) await round(one);
    const wanted = await stateOf(engine);
    for (const other of others) expect(await stateOf(other)).toEqual(wanted);
  });
}

test("full fine-tuning: a blended reference is kept, and going back before a blend is refused", async () => {
  const engine = await open("full", { reference: true });
  const [before, after] = [await folder(), await folder()];
  await engine.save(before);
  await train(engine, "policy", crossEntropy);
  engine.blendAdapter("policy", "reference", 0.5);
  await engine.publish();
  await engine.save(after);
  const other = await open("full", { reference: true });
  await other.load(after);
  expect(bitsOf(other, "reference")).toBe(bitsOf(engine, "reference"));
  expect(await stateOf(other)).toEqual(await stateOf(engine));
  const hash = engine.weightsHash();
  await expect(engine.load(before)).rejects.toThrow("expected the reference, which was blended since the engine was opened, got none");
  expect(engine.weightsHash()).toBe(hash);
});

test("going back to a state before the first blend makes the reference the base again", async () => {
  const engine = await open("fresh-lora", { reference: true });
  const path = await folder();
  await engine.save(path);
  await train(engine, "policy", crossEntropy);
  engine.blendAdapter("policy", "reference", 0);
  await engine.load(path);
  expect(await engine.logprobs(rows, { adapter: "reference" })).toEqual(await engine.logprobs(rows, { adapter: "base" }));
});

test("states of the first format are read; adapters that do not fit are refused and change nothing", async () => {
  const engine = await open("stored-lora");
  await train(engine, "policy", crossEntropy);
  const old = await folder();
  await engine.save(old);
  await writeFile(join(old, "state.json"), `{"updates":1,"version":4}\n`);
  const other = await open("stored-lora");
  await other.load(old);
  expect(other.weightsHash()).toBe(engine.weightsHash());
  expect([other.version, other.trainer.updates]).toEqual([4, 1]);
  other.addAdapter("critic", critic);
  await expect(other.load(old)).rejects.toThrow("expected adapter critic, got none; load the state before the adapter is added");
  const withCritic = await folder();
  await other.save(withCritic);
  const wide = await open("stored-lora");
  wide.addAdapter("critic", { ...critic, rank: 6 });
  const hashes = [wide.weightsHash(), bitsOf(wide, "critic")];
  await expect(wide.load(withCritic)).rejects.toThrow(
    /adapter critic: expected rank 6, alpha 8 on .*, with head, trained, got rank 4, alpha 8 on .*, with head, trained/,
  );
  await writeFile(join(old, "state.json"), `{"format":3,"updates":1,"version":4}\n`);
  await expect(wide.load(old)).rejects.toThrow("it was written by another version of this package");
  expect([wide.weightsHash(), bitsOf(wide, "critic")]).toEqual(hashes);
});

test("a loss that is not finite is caught though its gradients are", async () => {
  // 0 x infinity in the loss's constant part: the gradient of the rest is finite.
  const broken: Loss = {
    key: "test/infinite-loss",
    build: (x) => ({ loss: o.add(o.neg(o.sum(x.logprobs)), o.div(1, x.scalar("zero"))), metrics: {} }),
  };
  const engine = await open("stored-lora");
  await engine.forwardBackward({ ...batch, scalars: { zero: 0 } }, broken);
  const before = engine.weightsHash();
  expect(await engine.optimStep(adamw)).toEqual({ type: "skipped", tensor: "loss", value: Infinity });
  expect(engine.weightsHash()).toBe(before);
  await engine.forwardBackward({ ...batch, scalars: { zero: 1 } }, broken);
  expect((await engine.optimStep(adamw)).type).toBe("stepped");
});

test("closing ends what is being sampled with an error, and refuses what comes after", async () => {
  const engine = await open("stored-lora");
  engine.addAdapter("critic", critic);
  const keys = [1, 2, 3, 4].map((i) => rng(i));
  const running = engine.sample({ prompt: [1, 2, 3], count: 4, maxTokens: 50, temperature: 1, stopIds: [], keys });
  const scored = engine.logprobs(rows);
  const ended = expect(running).rejects.toThrow("sample: the engine was closed before this sequence ended");
  await engine.close();
  await ended;
  expect((await scored).length).toBe(3);
  await expect(greedy(engine)).rejects.toThrow("sample: the engine is closed");
  await expect(engine.logprobs(rows)).rejects.toThrow("logprobs: the engine is closed");
  expect(() => engine.addAdapter("more", critic)).toThrow("addAdapter: the engine is closed");
  await engine.close();
});
