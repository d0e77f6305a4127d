/** One algorithm with one seed until its tokens are spent, and what came of it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readRun } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import { klOf } from "../algorithms/run.ts";
import { setups } from "../algorithms/setups.ts";
import { env, model, rollout } from "../algorithms/task.ts";
import type { Run } from "./outcome.ts";

export interface Budget {
  readonly folder: string;
  /** Sampled tokens of training; held-out evaluations are not counted. */
  readonly tokens: number;
  readonly evalTasks: number;
}

/** Steps are no limit here. */
const manySteps = 100_000;
const evaluations = 4;

/** Trains (or goes on, or only reads what is done) and reads the run's record. */
export async function runOne(name: string, seed: number, { folder, tokens, evalTasks }: Budget): Promise<Run> {
  const { settings, learningRate, perStep } = setups[name]!;
  const id = `${name}-${seed}`;
  // 64 completions of some 40 tokens a step; an algorithm that replaces groups makes fewer steps and is evaluated less often.
  const evalEvery = Math.max(1, Math.round(tokens / 2600 / evaluations));
  const config = {
    name: id,
    seed,
    model: { path: model, rank: 16, alpha: 32 },
    env,
    algo: { name, ...settings },
    rollout: { ...rollout, tasksPerStep: perStep },
    optim: { learningRate, warmupSteps: 2 },
    train: { steps: manySteps, maxSampledTokens: tokens, evalEvery, evalTasks, checkpointEvery: evalEvery },
  } as unknown as TrainConfigInput;
  const path = join(folder, id);
  const started = performance.now();
  await train(config, { runsFolder: folder, resume: existsSync(join(path, "config.json")) });
  const seconds = (performance.now() - started) / 1000;
  const { metrics } = await readRun(path);
  const steps = metrics.flatMap((row) => {
    const { step, "tokens/sampled": spent, "reward/mean": reward, "batch/replaced": replaced } = row;
    return spent === undefined ? [] : [{ step, tokens: spent, reward: reward!, replaced: replaced! }];
  });
  const spentAt = new Map(steps.map(({ step, tokens: spent }) => [step, spent]));
  const heldout = metrics.flatMap((row) => {
    const success = row["heldout/success"];
    return success === undefined ? [] : [{ tokens: spentAt.get(row.step) ?? 0, success, tasks: row["heldout/tasks"]! }];
  });
  return { name, seed, groups: perStep, steps, heldout, kl: await klOf(path), seconds };
}
