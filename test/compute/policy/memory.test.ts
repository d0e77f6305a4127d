/** Memory: closing gives it back, and a run of steps of constant shape does not grow. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { LocalEngine } from "../../../src/compute/policy/local/engine.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { initialParameters } from "../../../src/compute/models/parameters.ts";
import { rng } from "../../../src/random.ts";
import type { Batch, Loss } from "../../../src/types.ts";
import { adamw, crossEntropy, goldenEngine, storedLora, trainRow } from "../../fakes/engines.ts";
import { goldenModel } from "../../fakes/golden.ts";

setFlagsFromString("--expose_gc");
const collect = runInNewContext("gc") as () => void;

/** Collects until finalisers have run, then reads. */
async function settled(): Promise<NodeJS.MemoryUsage> {
  for (let i = 0; i < 4; i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return process.memoryUsage();
}

const prompt = Array.from({ length: 14 }, (_, i) => (i * 31) % 96);

async function trainAndSample(engine: LocalEngine, step: number): Promise<void> {
  const spans = await engine.sample({
    prompt,
    count: 3,
    maxTokens: 4,
    temperature: 1,
    stopIds: [],
    keys: [0, 1, 2].map((i) => rng(step, i)),
  });
  const rows = spans.map(({ ids }) =>
    trainRow(
      [...prompt, ...ids],
      ids.map((_, t) => prompt.length + t),
    ),
  );
  const batch: Batch = { units: [{ rows }], scalars: { tokens: 12 } };
  await engine.forwardBackward(batch, crossEntropy);
  await engine.optimStep({ ...adamw, learningRate: 1e-4 });
  await engine.publish();
}

test("opened, used and closed ten times, an engine leaves nothing behind", { timeout: 300_000 }, async () => {
  // A model of 3 million parameters: what one engine holds (weights, gradients, moments) shows against the noise.
  const { architecture: tiny } = await goldenModel("llama");
  const architecture = { ...tiny, hidden: 256, heads: 8, headDim: 32, intermediate: 1024, layers: 3 };
  const cycle = async (train: "full" | "lora"): Promise<void> => {
    const options = train === "full" ? { type: "full" as const } : { type: "lora" as const, lora: storedLora };
    const engine = LocalEngine.open({
      name: "wide",
      architecture,
      parameters: initialParameters(architecture, 1),
      train: options,
      reference: true,
    });
    await trainAndSample(engine, 1);
    await engine.close();
  };
  for (let i = 0; i < 2; i++) await cycle("full");
  const before = await settled();
  for (let i = 0; i < 10; i++) await cycle(i % 2 === 0 ? "full" : "lora");
  const after = await settled();
  expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(1e6);
  expect(after.external - before.external).toBeLessThan(1e6);
  expect(after.rss - before.rss).toBeLessThan(10 * 8e6); // one engine holds 50 MB
});

test("two hundred steps of constant shape end with the memory of step 20", { timeout: 300_000 }, async () => {
  const { engine } = await goldenEngine("llama", "stored-lora");
  let early = 0;
  for (let step = 1; step <= 200; step++) {
    await trainAndSample(engine, step);
    if (step === 20) early = (await settled()).rss;
  }
  const late = (await settled()).rss;
  await engine.close();
  expect(late / early).toBeLessThan(1.05);
});

test("a hundred steps of policy and critic end with the memory of step 20", { timeout: 300_000 }, async () => {
  const { engine } = await goldenEngine("llama", "stored-lora");
  engine.addAdapter("critic", { from: "base", rank: 4, alpha: 8, scalarHead: true, trained: true, seed: 1 });
  const loss: Loss = { key: "test/squared-values", build: (x) => ({ loss: o.sum(o.mul(x.values, x.values)), metrics: {} }) };
  const rows = [0, 1, 2].map((i) => trainRow([...prompt, 5 + i, 9, 40 + i, 7], [14, 15, 16, 17, 18]));
  let early = 0;
  for (let step = 1; step <= 100; step++) {
    await trainAndSample(engine, step);
    await engine.values(rows, { adapter: "critic" });
    await engine.forwardBackward({ units: [{ rows }], scalars: {} }, loss, { adapter: "critic" });
    await engine.optimStep({ ...adamw, learningRate: 1e-4, adapter: "critic" });
    engine.directions("critic").move(new Float32Array(engine.info.trainable + 32).fill(1e-3), 1e-3);
    if (step === 20) early = (await settled()).rss;
  }
  const late = (await settled()).rss;
  await engine.close();
  expect(late / early).toBeLessThan(1.05);
});
