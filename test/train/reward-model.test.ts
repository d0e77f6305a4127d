/** Reward models from files of pairs and of steps: trained, written, opened again, resumed, and used as a reward. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { loadRewardModel, modelReward, scoreConversations, type RewardModelFile } from "../../src/loop/reward/reward-model.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import type { Message } from "../../src/types.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";
import { pairs, preferenceConfig, solutions, writeRows } from "../fakes/preferences.ts";

async function place(rows: readonly object[] = pairs) {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  return { runsFolder, model, data: writeRows(runsFolder, rows) };
}

const said = (prompt: string, content: string): Message[] => [{ role: "user", content: prompt }, { role: "assistant", content }];
const stored = (folder: string): RewardModelFile =>
  JSON.parse(readFileSync(join(folder, "reward-model/reward.json"), "utf8")) as RewardModelFile;

test("an ensemble learns to score, is written, and says the same when it is opened on another engine", { timeout: 180_000 }, async () => {
  const { runsFolder, ...files } = await place();
  const config = preferenceConfig({ ...files, algo: { name: "reward-model", ensemble: 3, centring: 0.01 } }, { train: { steps: 20 } });
  const { folder } = await train(config, { runsFolder });
  const { metrics, ledger } = await readRun(folder);
  const [before, after] = metrics.filter((row) => "heldout/accuracy" in row);
  const steps = metrics.filter((row) => "loss" in row);
  expect(Math.abs(steps[0]!["loss"]! - Math.LN2)).toBeLessThan(0.2);
  expect(steps.at(-1)!["rewards/accuracy"]).toBe(1);
  expect(after!["heldout/examples"]).toBe(4);
  expect(after!["heldout/accuracy"]).toBeGreaterThanOrEqual(0.75);
  expect(after!["heldout/margin"]).toBeGreaterThan(before!["heldout/margin"]! + 1);
  expect(after!["heldout/disagreement"]).toBeGreaterThan(0);
  // The policy was not touched, and each member saw examples of its own.
  expect(ledger.every(({ version }) => version === 0)).toBe(true);
  const seen = [1, 2, 3].map((member) => ledger.flatMap(({ tasks }) => tasks.filter((task) => task.startsWith(`reward-${member}: `))));
  expect(new Set(seen.map((tasks) => tasks.map((task) => task.slice(10)).join())).size).toBe(3);
  expect(seen.every((tasks) => tasks.every((task) => Number(task.slice(15)) <= 8))).toBe(true);

  await using policy = await openPolicy(files.model, { train: { type: "none" } });
  const { engine, renderer } = policy;
  const file = await loadRewardModel(engine, join(folder, "reward-model"));
  expect(file).toEqual(stored(folder));
  const conversations = pairs.flatMap(({ prompt, chosen, rejected }) => [said(prompt, chosen), said(prompt, rejected)]);
  const options = { engine, renderer, members: file.members };
  const scoresOf = async (some: typeof conversations, changes: object) =>
    (await scoreConversations(some, { ...options, ...changes })).map((score) => score!);
  const scores = await scoresOf(conversations, {});
  const right = pairs.filter((_, i) => scores[2 * i]!.score > scores[2 * i + 1]!.score).length;
  expect(right).toBe(8 + Math.round(4 * after!["heldout/accuracy"]!));
  // mean - caution x deviation, and in units of the training scores.
  const careful = await scoresOf(conversations, { caution: 2 });
  careful.forEach(({ score, mean, deviation }, i) => {
    expect(score).toBeCloseTo(mean - 2 * deviation, 6);
    expect(mean).toBeCloseTo(scores[i]!.mean, 6);
    expect(deviation).toBeGreaterThan(0);
  });
  const trained = await scoresOf(conversations.slice(0, 16), { members: [file.members[1]!], normalise: true });
  expect(trained.reduce((sum, { score }) => sum + score, 0) / 16).toBeCloseTo(0, 4);
  expect(trained.reduce((sum, { score }) => sum + score ** 2, 0) / 16).toBeCloseTo(1, 3);
});

test("as a reward: calls that come together are answered together, disagreement is a component", { timeout: 120_000 }, async () => {
  const { runsFolder, ...files } = await place();
  const config = preferenceConfig({ ...files, algo: { name: "reward-model", ensemble: 2 } }, { train: { steps: 8, evalEvery: 0 } });
  const { folder } = await train(config, { runsFolder });
  await using policy = await openPolicy(files.model, { train: { type: "none" } });
  const { members } = await loadRewardModel(policy.engine, join(folder, "reward-model"));
  let calls = 0;
  const engine = new Proxy(policy.engine, {
    get: (target, name) => {
      if (name === "values") calls++;
      const found: unknown = Reflect.get(target, name, target);
      return typeof found === "function" ? (found.bind(target) as unknown) : found;
    },
  });
  const reward = modelReward({ engine, renderer: policy.renderer, members, caution: 1 });
  const task = { id: "t", prompt: [], data: {} };
  const ask = async (answer: string) => reward({ task, messages: said("hi", answer), turns: [] });
  const verdicts = await Promise.all(["the dog", "the fox", "a dog", "fox"].map(ask));
  expect(calls).toBe(4); // two members for the first, two for the other three
  for (const verdict of verdicts) {
    if (verdict.type !== "scored") throw new Error(verdict.type);
    const { model, mean, disagreement } = verdict.components;
    expect(verdict.score).toBe(model);
    expect(model).toBeCloseTo(mean! - disagreement!, 6);
  }
  const long = await ask("dog ".repeat(300));
  expect(long).toEqual({ type: "unscorable", reason: "the conversation is longer than the reward model's context of 256" });
});

test("a process reward model learns which steps are right", { timeout: 120_000 }, async () => {
  const { runsFolder, ...files } = await place(solutions);
  const changes = { train: { steps: 25 }, optim: { learningRate: 1e-2 } };
  const config = preferenceConfig({ ...files, algo: { name: "process-reward-model" } }, changes);
  const { folder } = await train(config, { runsFolder });
  const { metrics } = await readRun(folder);
  expect(metrics.filter((row) => "loss" in row).at(-1)!["steps/accuracy"]).toBe(1);
  const [before, after] = metrics.filter((row) => "heldout/accuracy" in row);
  expect(after!["heldout/loss"]).toBeLessThan(before!["heldout/loss"]!);
  expect([after!["heldout/accuracy"], after!["heldout/examples"]]).toEqual([1, 12]);
  expect(stored(folder)).toMatchObject({ kind: "process", separator: "\n", examples: 8, members: [{ adapter: "reward" }] });
});

test("stopped and resumed, the adapters are those of the run that was never stopped", { timeout: 120_000 }, async () => {
  const { runsFolder, ...files } = await place();
  const changes = { train: { steps: 6, evalEvery: 3, checkpointEvery: 2 } };
  const run = (name: string, options: object = {}) =>
    train(preferenceConfig({ ...files, algo: { name: "reward-model", ensemble: 2 } }, { name, ...changes }), { runsFolder, ...options });
  const whole = await run("whole");
  const stop = new AbortController();
  const onStep = ({ step }: { step: number }): void => (step === 3 ? stop.abort(new Error("stopped")) : undefined);
  await expect(run("cut", { observer: { onStep }, signal: stop.signal })).rejects.toThrow("stopped");
  const resumed = await run("cut", { resume: true });
  expect(stored(resumed.folder)).toEqual(stored(whole.folder));
  for (const adapter of ["reward-1", "reward-2"]) {
    const [a, b] = [whole, resumed].map(({ folder }) => readFileSync(join(folder, "reward-model", adapter, "adapter_model.safetensors")));
    expect(a!.equals(b!)).toBe(true);
  }
});

test.each<[string, object, RegExp]>([
  ["reward-model", { model: { adapter: "full", rank: undefined } }, /^model.adapter: expected "lora" with reward-model/],
  ["reward-model", { train: { evalRows: 12 } }, /^train.evalRows: expected fewer than the 12 examples of .*, got 12/],
])("%s is refused with %j", async (name, changes, message) => {
  const { runsFolder, ...files } = await place();
  const config = JSON.parse(JSON.stringify(preferenceConfig({ ...files, algo: { name } }, changes)));
  await expect(train(config, { runsFolder })).rejects.toThrow(message);
});
