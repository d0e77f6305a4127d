/** One algorithm with one seed on the task, and what came of it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { algorithms } from "../../src/algo/registry.ts";
import { sampledRow } from "../../src/loop/batch/rows.ts";
import { loadRewardModel } from "../../src/loop/reward/reward-model.ts";
import type { AttachedModels } from "../../src/train/attach.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { turnScorer } from "../../src/train/process/turn-scorer.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { openTrainedPolicy } from "../../src/train/trained.ts";
import { train } from "../../src/train/train.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import type { Engine, TrainRow } from "../../src/types.ts";
import { examplesFor } from "./examples.ts";
import { setups } from "./setups.ts";
import { environment, env, folder, model, rollout } from "./task.ts";

const evalTasks = 100;

export interface Outcome {
  readonly seed: number;
  /** Held-out success (reward models: accuracy on held-out pairs) before the first and after the last step. */
  readonly before: number;
  readonly after: number;
  /** Of those, how many were judged. */
  readonly judged: number;
  /** KL(policy || opened policy) a completion, nats a token, on held-out tasks; null where the policy is not trained. */
  readonly kl: number | null;
  /** Of sampling and updates, without evaluations. */
  readonly seconds: number;
  /** Reward of each training step, [step, reward]; empty where nothing is sampled. */
  readonly rewards: readonly (readonly [number, number])[];
  /** [step, success] of every evaluation. */
  readonly heldout: readonly (readonly [number, number])[];
}

/** Trains unless the run is there already, and reads its record. */
export async function runOne(name: string, seed: number): Promise<Outcome> {
  const { settings, learningRate, perStep, steps } = setups[name]!;
  const id = `${name}-${seed}`;
  const offline = algorithms.find((factory) => factory.id === name)!({}).kind === "offline";
  const rewardModel = name === "reward-model" || name === "process-reward-model";
  const judged = name === "process-grpo";
  if (judged) await runOne("process-reward-model", seed);
  const config = {
    name: id,
    seed,
    model: { path: model, rank: 16, alpha: 32 },
    ...(rewardModel ? {} : { env }),
    ...(offline ? { data: await examplesFor(name) } : {}),
    algo: { name, ...settings },
    rollout: { ...rollout, tasksPerStep: perStep },
    ...(learningRate === undefined ? {} : { optim: { learningRate, warmupSteps: 2 } }),
    train: { steps, evalEvery: steps, evalTasks, checkpointEvery: steps, ...(rewardModel ? { evalRows: 128 } : {}) },
  } as unknown as TrainConfigInput;
  const judge = join(folder, `process-reward-model-${seed}`, "reward-model");
  await train(config, {
    runsFolder: folder,
    resume: existsSync(join(folder, id, "config.json")),
    ...(judged ? { attach: ({ engine }: { readonly engine: Engine }) => attachJudge(engine, judge) } : {}),
  });
  const { metrics } = await readRun(join(folder, id));
  // A run that was there already took its time then.
  const parts = ["seconds/rollout", "seconds/evidence", "seconds/update"];
  const seconds = metrics.reduce((sum, row) => parts.reduce((own, part) => own + (row[part] ?? 0), sum), 0);
  const measure = rewardModel ? "heldout/accuracy" : "heldout/success";
  const heldout = metrics.flatMap((row) => (row[measure] === undefined ? [] : [[row.step, row[measure]] as const]));
  const rewards = metrics.flatMap((row) => (row["reward/mean"] === undefined ? [] : [[row.step, row["reward/mean"]] as const]));
  const kl = rewardModel ? null : await klOf(join(folder, id));
  const counted = rewardModel ? 128 : evalTasks;
  return { seed, before: heldout[0]![1], after: heldout.at(-1)![1], judged: counted, kl, seconds, rewards, heldout };
}

/** The process reward model as an adapter of the same base: its head scores each turn after the turn's own last token. */
async function attachJudge(engine: Engine, from: string): Promise<AttachedModels> {
  const { members } = await loadRewardModel(engine, from);
  return { turnScorer: turnScorer({ adapter: members[0]!.adapter, at: "turn" }) };
}

/** KL(policy || opened policy) on held-out tasks: the mean over completions of k3 = pi_0 / pi - 1 - log(pi_0 / pi), never below 0. */
export async function klOf(run: string): Promise<number> {
  await using policy = await openTrainedPolicy(run);
  await policy.engine.publish();
  const tasks = Array.from({ length: 64 }, (_, i) => environment.tasks("test").at(i));
  const options = { ...rollout, policy, seed: 1, step: 0, stage: "heldout", groupSize: 1, temperature: 1, deadlineSeconds: 300 } as const;
  const groups = await collectGroups(environment, tasks, options);
  const rows = groups.flatMap(({ members }) => members.flatMap(({ trajectory }) => trajectory.rows.map(sampledRow)));
  const asked = rows.map(({ ids, trained, temperature }): TrainRow => ({ ids, trained, temperature, fields: {} }));
  const base = await policy.engine.logprobs(asked, { adapter: "base" });
  const means = rows.map(({ logprobs }, i) => {
    const ratios = logprobs.map((own, t) => base[i]![t]! - own);
    return ratios.reduce((sum, ratio) => sum + Math.expm1(ratio) - ratio, 0) / ratios.length;
  });
  return means.reduce((a, b) => a + b, 0) / means.length;
}
