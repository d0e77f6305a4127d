/** RLHF from nothing to a policy: fine-tuned on mixed answers, judged by a model that learned from pairs, and trained by PPO. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scored } from "../../src/errors.ts";
import { defineEnv } from "../../src/loop/rollout/tool-env.ts";
import { tasksFrom } from "../../src/loop/prompt/dataset.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { rlhf, type RlhfOptions } from "../../src/train/rlhf.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";
import { pairs, writeRows } from "../fakes/preferences.ts";

const questions = pairs.map(({ prompt }) => prompt);
/** Both animals are right answers to the fine-tuned model. */
const dialogues = questions.flatMap((question) =>
  ["the dog", "the fox"].map((answer) => ({ messages: [{ role: "user", content: question }, { role: "assistant", content: answer }] })),
);

const tasks = tasksFrom(questions.map((question, i) => ({ id: `q${i}`, question })));
/** The hidden gold score: whether a dog is in the answer. No training sees it. */
const env = defineEnv({
  name: "animals",
  tasks: () => tasks,
  maxTurns: 1,
  reward: ({ messages }) => scored(messages.at(-1)!.content.includes("dog") ? 1 : 0, "gold"),
});

test("three runs, each on the one before; interrupted in the second, it goes on there", { timeout: 600_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  const stages: string[] = [];
  const notes: string[] = [];
  const options: RlhfOptions = {
    model,
    name: "pets",
    adapter: { rank: 8 },
    sft: {
      data: writeRows(runsFolder, dialogues, "dialogues.jsonl"),
      rollout: { tasksPerStep: 24, maxTokens: 12 },
      optim: { learningRate: 2e-2 },
      train: { steps: 40, checkpointEvery: 40, evalEvery: 0 },
    },
    reward: {
      data: writeRows(runsFolder, pairs, "pairs.jsonl"),
      algo: { name: "reward-model", ensemble: 2 },
      caution: 0.5,
      rollout: { tasksPerStep: 12, maxTokens: 12 },
      optim: { learningRate: 5e-3 },
      train: { steps: 16, checkpointEvery: 4, evalEvery: 0 },
    },
    policy: {
      env,
      algo: { name: "ppo", groupSize: 4, cutEpisodes: "score", klRewardCoef: 0.02, criticLearningRate: 5e-3 },
      rollout: { tasksPerStep: 6, maxTokens: 12 },
      optim: { learningRate: 5e-3 },
      train: { steps: 8, checkpointEvery: 8, evalEvery: 8, evalTasks: 12 },
    },
    runsFolder,
    observer: { onStage: (stage) => stages.push(stage), onNote: (note) => notes.push(note) },
  };
  const stop = new AbortController();
  const onStep = ({ step }: { step: number }): void => {
    if (stages.at(-1) === "reward" && step === 6) stop.abort(new Error("stopped"));
  };
  await expect(rlhf({ ...options, signal: stop.signal, observer: { ...options.observer, onStep } })).rejects.toThrow("stopped");
  expect(stages).toEqual(["sft", "reward"]);
  const merged = join(runsFolder, "pets-sft", "model");
  expect(existsSync(join(merged, "model.safetensors"))).toBe(true);

  const result = await rlhf(options);
  expect(stages).toEqual(["sft", "reward", "sft", "reward", "policy"]);
  expect(notes).toContain("all 40 steps of this run are done; nothing is left to train");
  expect(notes).toContain("2 steps after checkpoint step-000004 are taken again");
  expect(notes.filter((note) => note.startsWith("memory, ")).map((note) => /^memory, ([^:]*)/.exec(note)![1])).toEqual([
    "four copies (PPO)", "two copies (GRPO)", "one base with adapters (PPO)",
  ]);
  expect(result.model).toBe(merged);
  for (const stage of ["reward", "policy"]) {
    const config = JSON.parse(readFileSync(join(runsFolder, `pets-${stage}`, "config.json"), "utf8")) as { model: { path: string } };
    expect(config.model.path).toBe(merged);
  }
  expect(existsSync(join(result.reward.rewardModel, "reward.json"))).toBe(true);

  // The proxy is what is trained on, with the ensemble's disagreement as a part; gold only watches, and rises with it.
  const { metrics } = await readRun(result.policy.folder);
  const steps = metrics.filter((row) => row["reward/mean"] !== undefined);
  const heldout = metrics.flatMap((row) => row["heldout/success"] ?? []);
  expect(steps.length).toBe(8);
  for (const row of steps) expect(row["reward/disagreement"]).toBeGreaterThan(0);
  expect(steps.at(-1)!["reward/mean"]!).toBeGreaterThan(steps[0]!["reward/mean"]! + 0.3);
  expect(heldout[0]).toBeLessThan(0.8);
  expect(heldout[1]).toBeGreaterThan(heldout[0]!);
  // Critic (a copy of the first reward adapter), both reward adapters and the policy stand in one checkpoint.
  const checkpoint = join(result.policy.folder, "checkpoints", "step-000008");
  for (const adapter of ["critic", "reward-1", "reward-2"]) expect(existsSync(join(checkpoint, `adapter-${adapter}.safetensors`))).toBe(true);
});
