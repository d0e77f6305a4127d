/** One way of giving credit with one seed until its tokens are spent, and what came of it. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { lock } from "../../src/env/lock.ts";
import type { AttachedModels } from "../../src/train/attach.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import { turnScorer } from "../../src/train/process/turn-scorer.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import { judge, makeJudge, type MadeJudge } from "./process.ts";

const groupSize = 8;

export const methods = {
  "outcome only (GRPO)": { name: "grpo", groupSize },
  "turns of one state (GiGPO)": { name: "gigpo", groupSize },
  "process reward (PRM)": { name: "process-grpo", groupSize, stepReward: "difference", gamma: 0.5, outcomeWeight: 1 },
} as const satisfies Record<string, TrainConfigInput["algo"]>;
export type Method = keyof typeof methods;

/** Signs with a hidden meaning; answers at random open one lock in eight. */
export const env = { name: "lock" } as const;
const limits = { maxTokens: 4, maxTurns: 19, concurrency: 128, deadlineSeconds: 600 };
/** One completion of many different prefixes says more than many completions of few. */
const labelling = { episodes: 200, completions: 1, epochs: 16, learningRate: 4e-3, limits };
/** Steps are no limit here. */
const manySteps = 100_000;

export interface Run {
  readonly method: Method;
  readonly seed: number;
  /** `tokens` are all that were sampled until the end of the step, for labels too. */
  readonly steps: readonly { readonly tokens: number; readonly reward: number; readonly dialsSet: number; readonly turns: number }[];
  /** Share of held-out locks opened at the end, and before. */
  readonly opened: number;
  readonly before: number;
  /** Tokens sampled for labels. */
  readonly labels: number;
  readonly seconds: number;
}

interface Budget {
  readonly model: string;
  readonly folder: string;
  /** Sampled tokens of training and labels; held-out evaluations are not counted. */
  readonly tokens: number;
  readonly evalTasks: number;
}

export async function runOne(method: Method, seed: number, { model, folder, tokens, evalTasks }: Budget): Promise<Run> {
  const started = performance.now();
  const algo = methods[method];
  const name = `${algo.name}-${seed}`;
  const judgeFolder = join(folder, `judge-${seed}`);
  const judged = algo.name === "process-grpo";
  const labels = judged ? await judgeOf(seed, { model, folder: judgeFolder }) : 0;
  await using judging = judged ? await openJudge(model, judgeFolder) : undefined;
  const config: TrainConfigInput = {
    name, seed, env, algo,
    model: { path: model, adapter: "full" },
    rollout: { ...limits, tasksPerStep: 8 },
    optim: { learningRate: 1e-4, warmupSteps: 4 },
    train: {
      steps: manySteps, maxSampledTokens: tokens - labels, evalEvery: manySteps, evalTasks, checkpointEvery: 10, microBatchTokens: 8192,
    },
  };
  await train(config, {
    runsFolder: folder,
    resume: existsSync(join(folder, name, "config.json")),
    ...(judging === undefined ? {} : { attach: () => Promise.resolve({ turnScorer: judging.turnScorer }) }),
  });
  const { metrics } = await readRun(join(folder, name));
  const steps = metrics.flatMap((row) => {
    const { "tokens/sampled": spent, "reward/mean": reward, dialsSet, turns } = row;
    return spent === undefined ? [] : [{ tokens: labels + spent, reward: reward!, dialsSet: dialsSet!, turns: turns! }];
  });
  const heldOut = metrics.flatMap((row) => row["heldout/success"] ?? []);
  return { method, seed, steps, before: heldOut[0]!, opened: heldOut.at(-1)!, labels, seconds: (performance.now() - started) / 1000 };
}

/** Makes the judge, or finds it made; returns what its labels cost in sampled tokens. */
async function judgeOf(seed: number, { model, folder }: { readonly model: string; readonly folder: string }): Promise<number> {
  const note = join(folder, "made.json");
  if (!existsSync(note)) {
    const made = await makeJudge(model, folder, { env: lock(), seed, ...labelling });
    const [first, last] = made.loss.map((loss) => loss.toFixed(3));
    process.stderr.write(`judge ${seed}: ${made.labelled} turns, ${made.sampledTokens} tokens, loss ${first} to ${last}\n`);
    writeFileSync(note, JSON.stringify(made));
  }
  return (JSON.parse(readFileSync(note, "utf8")) as MadeJudge).sampledTokens;
}

/** The judge on a base of its own: the policy's is trained. */
async function openJudge(model: string, folder: string): Promise<AsyncDisposable & Required<Pick<AttachedModels, "turnScorer">>> {
  const policy = await openPolicy(model, { microBatchTokens: 8192 });
  await policy.engine.loadAdapter(judge.adapter, folder);
  const scorer = turnScorer(judge);
  return { turnScorer: (trajectories) => scorer(trajectories, { policy }), [Symbol.asyncDispose]: () => policy[Symbol.asyncDispose]() };
}
