/** Whole offline runs over preferences on a tiny random model: each algorithm learns, and what is written and said is right. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRun } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import type { JsonObject } from "../../src/types.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";
import { pairs, preferenceConfig, writeRows } from "../fakes/preferences.ts";

const wide = { max_position_embeddings: 256 };

async function place() {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  return { runsFolder, model, data: writeRows(runsFolder, pairs) };
}

const heldout = (metrics: readonly Readonly<Record<string, number>>[]) => metrics.filter((row) => "heldout/accuracy" in row);
const training = (metrics: readonly Readonly<Record<string, number>>[]) => metrics.filter((row) => "loss" in row);

test("DPO starts at its own reference with a loss of ln 2, and learns to prefer, also untrained pairs", { timeout: 120_000 }, async () => {
  const { runsFolder, ...files } = await place();
  const notes: string[] = [];
  const config = preferenceConfig({ ...files, algo: { name: "dpo", beta: 0.5 } });
  const { folder } = await train(config, { runsFolder, observer: { onNote: (text) => notes.push(text) } });
  const { metrics, ledger } = await readRun(folder);
  const steps = training(metrics);
  expect(steps[0]!["loss"]).toBeCloseTo(Math.LN2, 5);
  expect(steps[0]!["reference/gap"]).toBeLessThan(1e-5);
  expect(steps[0]!["gradNorm"]).toBeGreaterThan(1e-3);
  expect(steps.at(-1)!["rewards/accuracy"]).toBe(1);
  expect(steps.at(-1)!["rewards/margin"]).toBeGreaterThan(1);
  expect(steps.at(-1)!["loss"]).toBeLessThan(0.4);
  const [before, after] = heldout(metrics);
  expect(before!["heldout/accuracy"]).toBeLessThan(0.8);
  expect([after!["heldout/accuracy"], after!["heldout/examples"]]).toEqual([1, 4]);
  expect(after!["heldout/accuracyLow"]).toBeCloseTo(0.5101, 4);
  expect(notes.at(-1)).toBe("step 12: held-out accuracy 100.0 % (95 % interval 51.0 % to 100.0 %, 4 judged)");
  const trained = new Set(ledger.flatMap(({ tasks }) => tasks));
  expect([...trained].sort()).toEqual(["pair 1", "pair 2", "pair 3", "pair 4", "pair 5", "pair 6", "pair 7", "pair 8"]);
});

test.each(["lora", "full"])("a reference that was computed once gives the same run as a live one (%s)", async (adapter) => {
  const { runsFolder, ...files } = await place();
  const run = async (reference: string) => {
    const changes = { name: reference, model: adapter === "full" ? { adapter, rank: undefined } : {}, train: { steps: 4, evalEvery: 2 } };
    const config = preferenceConfig({ ...files, algo: { name: "dpo", reference } }, changes);
    return readRun((await train(JSON.parse(JSON.stringify(config)), { runsFolder })).folder);
  };
  const [live, once] = [await run("live"), await run("precomputed")];
  live.metrics.forEach((row, i) => {
    for (const [key, value] of Object.entries(row)) {
      const gap = Math.abs(once.metrics[i]![key]! - value);
      if (!key.startsWith("seconds/")) expect(gap, key).toBeLessThan(2e-5 * Math.max(1, Math.abs(value)));
    }
  });
});

test.each<[string, JsonObject]>([
  ["dpo", { loss: "ipo" }],
  ["dpo", { loss: "hinge" }],
  ["dpo", { loss: "robust", labelSmoothing: 0.1 }],
  ["dpo", { loss: "conservative", labelSmoothing: 0.1 }],
  ["kto", {}],
  ["orpo", { beta: 1 }],
  ["simpo", {}],
])("%s %j: the chosen answers move ahead", { timeout: 120_000 }, async (name, settings) => {
  const { runsFolder, ...files } = await place();
  const rollout = name === "kto" ? { tasksPerStep: 16 } : {};
  const config = preferenceConfig({ ...files, algo: { name, ...settings } }, { rollout });
  const { metrics } = await readRun((await train(config, { runsFolder })).folder);
  const [first, last] = [training(metrics)[0]!, training(metrics).at(-1)!];
  expect(first["rewards/accuracy"]).toBeLessThan(0.8);
  expect(last["rewards/accuracy"]).toBe(1);
  expect(last["rewards/margin"]).toBeGreaterThan(first["rewards/margin"]!);
  expect(last["loss"]).toBeLessThan(first["loss"]!);
  expect(heldout(metrics).at(-1)!["heldout/accuracy"]).toBe(1);
});

test("KTO starts at one half, its baseline at 0", async () => {
  const { runsFolder, ...files } = await place();
  const changes = { rollout: { tasksPerStep: 16 }, train: { steps: 1, evalEvery: 0 } };
  const config = preferenceConfig({ ...files, algo: { name: "kto" } }, changes);
  const { metrics } = await readRun((await train(config, { runsFolder })).folder);
  expect(metrics[0]!["loss"]).toBeCloseTo(0.5, 5);
});

test("online DPO raises the reward of a random policy by its own best and worst samples", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const { algo: _, ...base } = lettersConfig(model, { optim: { learningRate: 2e-2 }, train: { steps: 20, checkpointEvery: 20 } });
  const config = { ...base, algo: { name: "online-dpo", groupSize: 4 } } as typeof base & { algo: { name: "online-dpo" } };
  const { metrics } = await readRun((await train(config, { env: letters(), runsFolder })).folder);
  const mean = (from: number, to: number): number =>
    metrics.slice(from, to).reduce((sum, row) => sum + row["reward/mean"]!, 0) / (to - from);
  const first = metrics.find((row) => "loss" in row)!;
  expect(first["loss"]).toBeCloseTo(Math.LN2, 5);
  expect(mean(0, 2)).toBeLessThan(0.5);
  expect(mean(17, 20)).toBeGreaterThan(0.8);
});
