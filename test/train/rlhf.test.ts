/** RLHF from nothing to a policy: fine-tuned on mixed answers, judged by a model that learned from pairs, and trained by PPO. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { scored } from "../../src/errors.ts";
import { defineEnv } from "../../src/loop/rollout/tool-env.ts";
import { loadRewardModel, scoreConversations } from "../../src/loop/reward/reward-model.ts";
import { tasksFrom } from "../../src/loop/prompt/dataset.ts";
import { newestCheckpoint } from "../../src/train/record/checkpoint.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { rlhf, type RlhfOptions, type RlhfResult } from "../../src/train/rlhf.ts";
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

test("what is wrong with the last stage is said before the first one is trained", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  const begin = (algo: NonNullable<RlhfOptions["policy"]["algo"]>) =>
    rlhf({ model, name: "pets", reward: { data: writeRows(runsFolder, pairs, "pairs.jsonl") }, policy: { env, algo }, runsFolder });
  const want = "rlhf policy.algo.name: expected an algorithm that learns from its own samples, got dpo";
  await expect(begin({ name: "dpo" })).rejects.toThrow(want);
  await expect(begin({ name: "ppo", clipLow: 7 })).rejects.toThrow("algo.clipLow: expected a number above 0 and at most 1, got 7");
  expect(existsSync(join(runsFolder, "pets-reward"))).toBe(false);
});

test("three runs, each on the one before; interrupted in the second, it goes on there", { timeout: 600_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  const stages: string[] = [];
  const notes: string[] = [];
  const labelled: string[] = [];
  const options: RlhfOptions = {
    model,
    name: "pets",
    adapter: { rank: 16 },
    sft: {
      data: writeRows(runsFolder, dialogues, "dialogues.jsonl"),
      rollout: { tasksPerStep: 24, maxTokens: 12 },
      optim: { learningRate: 3e-2, schedule: "cosine" },
      train: { steps: 12, checkpointEvery: 12, evalEvery: 0 },
    },
    reward: {
      data: async (tuned) => {
        labelled.push(tuned);
        return writeRows(runsFolder, pairs, "pairs.jsonl");
      },
      algo: { name: "reward-model", ensemble: 2 },
      caution: 0.2,
      rollout: { tasksPerStep: 12, maxTokens: 12 },
      optim: { learningRate: 5e-3 },
      train: { steps: 10, checkpointEvery: 4, evalEvery: 0 },
    },
    policy: {
      env,
      algo: { name: "ppo", groupSize: 2, cutEpisodes: "score", klRewardCoef: 0.002, criticLearningRate: 1e-2 },
      rollout: { tasksPerStep: 8, maxTokens: 10 },
      optim: { learningRate: 2e-2 },
      train: { steps: 3, checkpointEvery: 3, evalEvery: 3, evalTasks: 12 },
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
  // The interruption came between two updates: its step is kept, unless the checkpoint before took too long on this machine.
  const saved = await newestCheckpoint(join(runsFolder, "pets-reward"));
  expect([4, 6]).toContain(saved);
  const merged = join(runsFolder, "pets-sft", "model-12");
  expect(existsSync(join(merged, "model.safetensors"))).toBe(true);

  const result: RlhfResult = await rlhf(options);
  expect(stages).toEqual(["sft", "reward", "sft", "reward", "policy"]);
  expect(notes).toContain("all 12 steps of this run are done; nothing is left to train");
  const again = saved === 6 ? [] : ["2 steps after checkpoint step-000004 are taken again"];
  expect(notes.filter((note) => note.endsWith("taken again"))).toEqual(again);
  expect(notes.filter((note) => note.startsWith("memory, ")).map((note) => /^memory, ([^:]*)/.exec(note)![1])).toEqual([
    "four copies (PPO)", "two copies (GRPO)", "one base with adapters (PPO)",
  ]);
  expect(result.model).toBe(merged);
  expect(labelled).toEqual([merged, merged]);
  for (const stage of ["reward", "policy"]) {
    const config = JSON.parse(readFileSync(join(runsFolder, `pets-${stage}`, "config.json"), "utf8")) as { model: { path: string } };
    expect(config.model.path).toBe(merged);
  }
  expect(existsSync(join(result.reward.rewardModel, "reward.json"))).toBe(true);

  // What is trained on is the reward model's word, on the fine-tuned base and in units of its own training; gold only watches.
  const { metrics } = await readRun(result.policy.folder);
  expect(metrics.filter((row) => row["reward/mean"] !== undefined).length).toBe(3);
  expect(metrics.flatMap((row) => row["heldout/success"] ?? []).length).toBe(2);
  const rollouts = await readTrajectories(result.policy.folder, "step", 3);
  await using policy = await openPolicy(merged, { train: { type: "none" } });
  const { engine, renderer } = policy;
  const { members } = await loadRewardModel(engine, result.reward.rewardModel);
  expect(members.length).toBe(2);
  const conversations = rollouts.map(({ scored: { trajectory } }) => trajectory.messages);
  const scores = await scoreConversations(conversations, { engine, renderer, members, caution: 0.2, normalise: true });
  rollouts.forEach(({ scored: { verdict } }, i) => {
    if (verdict.type !== "scored") throw new Error(verdict.type);
    expect(verdict.score).toBeCloseTo(scores[i]!.score, 3);
    expect(verdict.components["disagreement"]).toBeCloseTo(scores[i]!.deviation, 3);
  });
  // The reference is the base that both were opened on: there is no distance at first, and some after two steps.
  const kl = metrics.flatMap((row) => row["kl/completion"] ?? []);
  expect(Math.abs(kl[0]!)).toBeLessThan(1e-5);
  expect(kl[2]).toBeGreaterThan(0);
  // Critic (a copy of the first reward adapter), both reward adapters and the policy stand in one checkpoint.
  const checkpoint = join(result.policy.folder, "checkpoints", "step-000003");
  for (const adapter of ["critic", "reward-1", "reward-2"]) {
    expect(existsSync(join(checkpoint, `adapter-${adapter}.safetensors`))).toBe(true);
  }
});
