/** Broken gradients, a publication that does nothing, a sampler that means something else. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { grpo } from "../../src/algo/grpo.ts";
import { ppo } from "../../src/algo/ppo.ts";
import { trpo } from "../../src/algo/trpo.ts";
import { loraOptions } from "../../src/compute/models/lora.ts";
import * as o from "../../src/compute/tensor/ops.ts";
import { openPolicy, type OpenedPolicy } from "../../src/compute/policy/open.ts";
import { attachModels } from "../../src/train/attach.ts";
import { configJson, parseTrainConfig } from "../../src/train/config.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { openRun } from "../../src/train/record/run-folder.ts";
import { trainSync } from "../../src/train/sync.ts";
import type { Algorithm, Loss } from "../../src/types.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

interface Given {
  readonly algorithm: Algorithm;
  readonly steps: number;
  readonly adapter?: "full" | "lora";
  readonly prepare?: (policy: OpenedPolicy) => void;
}

/** A run of the toy with an algorithm of the test's own. */
async function runOf({ algorithm, steps, adapter = "full", prepare }: Given) {
  const folder = await temporaryFolder();
  const model = await writeTinyModel(join(folder, "model"), "llama", { max_position_embeddings: 256 });
  const changes = { model: { adapter, ...(adapter === "full" ? {} : { rank: 2, alpha: 4 }) }, rollout: { tasksPerStep: 2 } };
  const config = parseTrainConfig(lettersConfig(model, { ...changes, train: { steps, checkpointEvery: steps } }));
  await using run = await openRun({ folder: join(folder, "run"), config: configJson(config), plan: {}, resume: false });
  const shape = config.model;
  const train = shape.adapter === "full" ? { type: "full" as const } : { type: "lora" as const, lora: loraOptions(shape) };
  await using policy = await openPolicy(model, { train, reference: algorithm.needs?.includes("reference") ?? false });
  attachModels(policy.engine, { config, algorithm, models: {} });
  await policy.engine.publish();
  prepare?.(policy);
  const before = policy.engine.weightsHash();
  const notes: string[] = [];
  const observer = { onNote: (text: string) => notes.push(text) };
  const training = trainSync({ config, policy, run, env: letters(), algorithm, observer });
  const failure = await training.then(() => undefined, (cause: unknown) => cause);
  const unchanged = policy.engine.weightsHash() === before;
  return { failure, notes, unchanged, record: await readRun(run.folder), updates: policy.engine.trainer.updates };
}

/** Every log-prob times the logarithm of a negative number: no gradient is a number. */
const broken: Loss = {
  key: "test/broken",
  build: (x) => ({ loss: o.sum(o.mul(x.logprobs, o.log(o.sub(x.logprobs, 1)))), metrics: {} }),
};

test("a gradient that is no number changes nothing, is named, and the third in a row ends the run", async () => {
  const { failure, notes, unchanged, record, updates } = await runOf({ algorithm: { ...grpo(), loss: broken }, steps: 10 });
  expect(String(failure)).toMatch(/^PolicyError: the last 3 steps: expected finite losses and gradients, got the gradient of \S+ is NaN;/);
  expect(String(failure)).toMatch(/; lower optim.learningRate; the weights are those before these steps$/);
  expect([unchanged, updates]).toEqual([true, 0]);
  expect(notes.map((note) => note.replace(/of \S+ is/, "of W is"))).toEqual(
    [1, 2, 3].map((step) => `step ${step}: the gradient of W is NaN; the weights were not changed`),
  );
  expect(record.ledger.map(({ version, skipped }) => [version, skipped?.replace(/of \S+ is/, "of W is")])).toEqual(
    [1, 2, 3].map(() => [0, "the gradient of W is NaN"]),
  );
  expect(record.metrics.map((row) => row["gradNorm"])).toEqual([NaN, NaN, NaN]);
});

const brokenCritic: Loss = {
  key: "test/broken-critic",
  build: (x) => ({ loss: o.add(o.sum(x.values), o.stopGradient(o.log(o.sub(o.sum(o.mul(x.values, 0)), 1)))), metrics: {} }),
};

/** The gradient is that of the mean log-prob, finite everywhere; the value is not a number. */
const brokenValue: Loss = {
  key: "test/broken-value",
  build: (x) => ({ loss: o.add(o.sum(o.mul(x.logprobs, 1e-3)), o.stopGradient(o.sum(o.log(o.sub(x.logprobs, 1))))), metrics: {} }),
};

test("a loss that is no number changes nothing although its gradients are finite, and the third in a row ends the run", async () => {
  const { failure, notes, unchanged, record, updates } = await runOf({ algorithm: { ...grpo(), loss: brokenValue }, steps: 10 });
  expect(String(failure)).toMatch(/^PolicyError: the last 3 steps: expected finite losses and gradients, got the loss is NaN; lower/);
  expect([unchanged, updates]).toEqual([true, 0]);
  expect(notes).toEqual([1, 2, 3].map((step) => `step ${step}: the loss is NaN; the weights were not changed`));
  expect(record.ledger.map(({ version, skipped }) => [version, skipped])).toEqual([1, 2, 3].map(() => [0, "the loss is NaN"]));
});

test("a trust region names a loss that is no number, and ends the run at the third", async () => {
  const { failure, unchanged, record } = await runOf({ algorithm: { ...trpo(), loss: brokenValue }, steps: 10, adapter: "lora" });
  expect(String(failure)).toMatch(/^PolicyError: the last 3 steps: expected finite losses and gradients, got the loss is NaN; lower/);
  expect(unchanged).toBe(true);
  expect(record.ledger.map(({ skipped }) => skipped)).toEqual([1, 2, 3].map(() => "the loss is NaN"));
});

test("a critic whose loss is no number is told of and not changed, and the third time in a row ends the run", async () => {
  const algorithm = ppo();
  const critic = { ...algorithm.critic!, loss: brokenCritic };
  const { failure, notes } = await runOf({ algorithm: { ...algorithm, critic }, steps: 10, adapter: "lora" });
  const what = "the critic's loss or gradient is not finite";
  expect(String(failure)).toContain(`expected finite losses and gradients, got ${what}; lower`);
  expect(notes.filter((note) => note.includes(what))).toEqual([1, 2, 3].map((step) => `step ${step}: ${what}; the critic was not changed`));
});

test("one broken step between good ones is passed over", async () => {
  const good = grpo();
  let calls = 0;
  const algorithm: Algorithm = {
    ...good,
    get loss() {
      return ++calls === 2 ? broken : good.loss;
    },
  };
  const { failure, record, unchanged } = await runOf({ algorithm, steps: 3 });
  expect([failure, unchanged]).toEqual([undefined, false]);
  expect(record.ledger.map(({ version }) => version)).toEqual([1, 1, 2]);
});

test("an update that does not reach the sampled weights ends the run at that step", async () => {
  const { failure, record } = await runOf({
    algorithm: grpo(),
    steps: 3,
    prepare: ({ engine }) => {
      // The update says that it was made, and the weights are put back.
      const step = engine.trainer.optimStep.bind(engine.trainer);
      engine.trainer.optimStep = async (options) => {
        const kept = [...engine.trainer.trainable.values()].map(({ floats }) => floats.slice());
        const result = await step(options);
        [...engine.trainer.trainable.values()].forEach(({ floats }, i) => floats.set(kept[i]!));
        return result;
      };
    },
  });
  expect(String(failure)).toMatch(
    /^PolicyError: publish: expected the probe's log-probs to move after an update, got the same to the last bit/,
  );
  expect(record.ledger).toEqual([]);
});

test("a sampler that means another distribution than the trainer ends the run before an update", async () => {
  const { failure, unchanged } = await runOf({
    algorithm: grpo(),
    steps: 3,
    prepare: ({ engine }) => {
      const sample = engine.sampler.sample.bind(engine.sampler);
      engine.sampler.sample = async (request, version) =>
        (await sample(request, version)).map((span) => ({ ...span, logprobs: span.logprobs.map((value) => value / 2) }));
    },
  });
  expect(String(failure)).toMatch(/^PolicyError: first pass over fresh samples: expected log-probs within 0.0001 of the sampler's, got \d/);
  expect(unchanged).toBe(true);
});
