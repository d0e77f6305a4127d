/** Whole runs with a critic, a controller, a moving reference and a trust region on a tiny random model. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ppo } from "../../src/algo/ppo.ts";
import { loraTargets } from "../../src/compute/models/lora.ts";
import { scalarHeadName } from "../../src/compute/models/scalar-head.ts";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { configJson, parseTrainConfig } from "../../src/train/config.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { openRun } from "../../src/train/record/run-folder.ts";
import { trainSync } from "../../src/train/sync.ts";
import { train } from "../../src/train/train.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

const wide = { max_position_embeddings: 256 };
type Changes = Parameters<typeof lettersConfig>[1];

async function modelIn(folder: string): Promise<string> {
  return writeTinyModel(join(folder, "model"), "llama", wide);
}

const config = (model: string, { algo, ...changes }: NonNullable<Changes>) =>
  lettersConfig(model, { ...changes, model: { adapter: "lora" }, algo: { name: "ppo", cutEpisodes: "score", ...algo } });

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

test("PPO raises the reward of a random policy, and its critic learns what to expect", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await modelIn(runsFolder);
  const algo = { groupSize: 8, klRewardCoef: 0, criticLearningRate: 1e-2 };
  const changes = { algo, optim: { learningRate: 3e-2 }, train: { steps: 16, checkpointEvery: 16 } };
  const { folder } = await train(config(model, changes), { env: letters(), runsFolder });
  const { metrics, ledger } = await readRun(folder);
  const rewards = metrics.map((row) => row["reward/mean"]!);
  expect(mean(rewards.slice(0, 3))).toBeLessThan(0.35);
  expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 3)) + 0.15);
  // Values follow the rewards, from near 0 on.
  expect(metrics[0]!["critic/value"]).toBeLessThan(0.15);
  expect(Math.abs(mean(metrics.slice(-3).map((row) => row["critic/value"]!)) - mean(rewards.slice(-3)))).toBeLessThan(0.15);
  for (const row of metrics) {
    expect(row["samplerGap"]).toBeLessThan(1e-4);
    expect(row["critic/gradNorm"]).toBeGreaterThan(0);
  }
  expect(ledger.every(({ skipped }) => skipped === undefined)).toBe(true);
});

/** All that a run recorded but how long it took, and the bytes of its last checkpoint. */
async function recorded(folder: string, step: number) {
  const { ledger, metrics } = await readRun(folder);
  const timeless = metrics.map((row) => Object.entries(row).filter(([key]) => !/^(seconds|tokensPerSecond)\//.test(key)));
  const rollouts = [];
  for (const entry of ledger) {
    for (const { scored, credit } of await readTrajectories(folder, "step", entry.step))
      rollouts.push({ ids: scored.trajectory.rows.map(({ spans }) => spans.map(({ ids }) => ids)), advantages: credit?.advantages });
  }
  const checkpoint = join(folder, "checkpoints", `step-${String(step).padStart(6, "0")}`);
  const files = readdirSync(checkpoint).filter((name) => name !== "manifest.json").sort();
  const bytes = files.map((name) => [name, readFileSync(join(checkpoint, name)).toString("base64")]);
  const { extra } = JSON.parse(readFileSync(join(checkpoint, "manifest.json"), "utf8")) as { extra: unknown };
  return { ledger, timeless, rollouts, bytes, extra };
}

test("stopped and resumed with critic, controller and moving reference: bitwise the run that was not", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await modelIn(runsFolder);
  const control = { klControl: "adaptive", klTarget: 0.01, klHorizon: 20 };
  const algo = { groupSize: 2, ...control, criticWarmupSteps: 2, criticEpochsPerBatch: 2, epochsPerBatch: 2 };
  const changes = {
    algo,
    rollout: { tasksPerStep: 2 },
    optim: { schedule: "cosine" },
    train: { steps: 7, checkpointEvery: 3, referenceDecay: 0.5 },
  };
  const env = letters();
  const stop = {
    onStep: ({ step }: { step: number }) => {
      if (step === 5) throw new Error("pulled the plug");
    },
  };
  const broken = train(config(model, changes), { env, runsFolder: join(runsFolder, "stopped"), observer: stop });
  await expect(broken).rejects.toThrow("pulled the plug");
  const resumed = await train(config(model, changes), { env, runsFolder: join(runsFolder, "stopped"), resume: true });
  const whole = await train(config(model, changes), { env, runsFolder: join(runsFolder, "whole") });
  const [left, right] = [await recorded(resumed.folder, 7), await recorded(whole.folder, 7)];
  expect(left).toEqual(right);
  expect(right.bytes.map(([name]) => name)).toEqual(
    expect.arrayContaining(["adapter-critic.safetensors", "adapter-critic.moments.safetensors", "adapter-reference.safetensors"]),
  );
  // In the warm-up the critic alone is trained, and the policy keeps its version.
  expect(right.ledger.slice(0, 3).map(({ version, skipped }) => [version, skipped])).toEqual([
    [0, "the critic alone is trained"], [0, "the critic alone is trained"], [1, undefined],
  ]);
  const { metrics } = await readRun(whole.folder);
  const coefficients = metrics.map((row) => row["coefficient/klRewardCoef"]!);
  expect(coefficients[0]).toBe(0.05);
  // No KL at first: the coefficient falls by 0.2 x 4 completions / 20 a step.
  expect(coefficients[1]! / 0.05).toBeCloseTo(0.96, 10);
  expect(new Set(coefficients).size).toBe(7);
});

test("no reward and a critic that expects none: not one weight changes, whitened or not", async () => {
  const runsFolder = await temporaryFolder();
  const model = await modelIn(runsFolder);
  const env = letters(Array.from({ length: 20 }, (_, i) => `t${i}`));
  for (const whitenAdvantages of [true, false]) {
    const algorithm = ppo({ groupSize: 2, klRewardCoef: 0, whitenAdvantages });
    const parsed = parseTrainConfig(config(model, { algo: algorithm.settings, train: { steps: 2 } }));
    const folder = join(runsFolder, String(whitenAdvantages));
    await using run = await openRun({ folder, config: configJson(parsed), plan: {}, resume: false });
    const lora = { rank: 4, alpha: 8, targets: loraTargets };
    await using policy = await openPolicy(model, { train: { type: "lora", lora } });
    const { engine } = policy;
    engine.addAdapter("critic", { from: "base", rank: 4, alpha: 8, scalarHead: true, trained: true, seed: 0 });
    engine.model.parametersOf("critic").get(scalarHeadName)!.floats.fill(0);
    await engine.publish();
    const hash = engine.weightsHash();
    await trainSync({ config: parsed, policy, run, env, algorithm, observer: {} });
    const { metrics, ledger } = await readRun(run.folder);
    expect(engine.weightsHash()).toBe(hash);
    expect(metrics.map((row) => [row["reward/mean"], row["critic/loss"]])).toEqual([[0, 0], [0, 0]]);
    expect(ledger.map(({ skipped }) => skipped)).toEqual(["no group has a gradient", "no group has a gradient"]);
  }
});

test("TRPO: every step stays within its divergence, and the surrogate rises with each", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await modelIn(runsFolder);
  const algo = { name: "trpo", groupSize: 16, maxKl: 0.2 };
  const changes = { model: { adapter: "lora" }, algo, train: { steps: 8, checkpointEvery: 8 } };
  const { optim: _, ...rest } = lettersConfig(model, changes);
  const { folder } = await train(rest, { env: letters(), runsFolder });
  const { metrics, ledger } = await readRun(folder);
  for (const row of metrics) {
    expect(row["trust/accepted"]).toBe(1);
    expect(row["trust/kl"]).toBeLessThanOrEqual(0.2);
    expect(row["trust/improvement"]).toBeGreaterThan(0);
  }
  expect(ledger.map(({ version }) => version)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const rewards = metrics.map((row) => row["reward/mean"]!);
  expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 3)) + 0.03);
});
