/** Broken gradients, a publication that does nothing, a sampler that means something else. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { grpo } from "../../src/algo/grpo.ts";
import * as o from "../../src/compute/tensor/ops.ts";
import { openPolicy, type OpenedPolicy } from "../../src/compute/policy/open.ts";
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
  readonly prepare?: (policy: OpenedPolicy) => void;
}

/** A run of the toy with an algorithm of the test's own. */
async function runOf({ algorithm, steps, prepare }: Given) {
  const folder = await temporaryFolder();
  const model = await writeTinyModel(join(folder, "model"), "llama", { max_position_embeddings: 256 });
  const config = parseTrainConfig(lettersConfig(model, { train: { steps, checkpointEvery: steps }, rollout: { tasksPerStep: 2 } }));
  await using run = await openRun({ folder: join(folder, "run"), config: configJson(config), plan: {}, resume: false });
  await using policy = await openPolicy(model, { train: { type: "full" } });
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
  expect(String(failure)).toMatch(/^PolicyError: the last 3 steps: expected finite gradients, got the gradient of \S+ is NaN; lower/);
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
