/** A process reward model without a person: sampled episodes, Monte-Carlo labels for their turns, and a head that learns them. */
import { processRewardModel } from "../../src/algo/process-reward-model.ts";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { learningRateAt } from "../../src/loop/update/schedule.ts";
import { tasksOfStep } from "../../src/loop/prompt/order.ts";
import { permutation, rng } from "../../src/random.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { labelSteps, type LabelledSteps } from "../../src/train/process/label-steps.ts";
import { labelledBatch } from "../../src/train/process/turn-scorer.ts";
import type { Env } from "../../src/types.ts";

/** The adapter's name, and where a turn is judged: the environment's answer tells whether a dial was set. */
export const judge = { adapter: "process", at: "reply" } as const;
const shape = { rank: 8, alpha: 16 };

export interface ProcessOptions {
  readonly seed: number;
  /** Episodes that are labelled, one a task. */
  readonly episodes: number;
  /** Completions of each prefix. */
  readonly completions: number;
  readonly epochs: number;
  readonly learningRate: number;
  readonly limits: Readonly<Record<"maxTokens" | "maxTurns" | "concurrency" | "deadlineSeconds", number>>;
}

export interface MadeJudge {
  /** Tokens sampled for the episodes and for their completions. */
  readonly sampledTokens: number;
  readonly labelled: number;
  /** Of the first and the last pass over the labels. */
  readonly loss: readonly [number, number];
}

/** Trains the adapter on the model of `folder` as it is before reinforcement, and saves it to `to`. */
export async function makeJudge(
  folder: string,
  to: string,
  { env, ...options }: ProcessOptions & { readonly env: Env },
): Promise<MadeJudge> {
  const { seed, episodes, completions, epochs, learningRate, limits } = options;
  await using policy = await openPolicy(folder, { seed, maxRows: limits.concurrency, microBatchTokens: 8192 });
  const { engine } = policy;
  await engine.publish();
  const sampling = { ...limits, policy, seed, temperature: 1 };
  const source = env.tasks("train");
  const tasks = tasksOfStep(source, { seed, step: 1, count: episodes });
  const groups = await collectGroups(env, tasks, { ...sampling, stage: "heldout", step: 0, groupSize: 1 });
  const played = groups.flatMap(({ members }) => members);
  const labelled = await labelSteps(env, played, { ...sampling, completions, kind: "soft", steps: "turns" });
  engine.addAdapter(judge.adapter, { from: "base", ...shape, scalarHead: true, trained: true, seed });
  const losses: number[] = [];
  for (let epoch = 0; epoch < epochs; epoch++) losses.push(await pass(labelled, epoch));
  await engine.saveAdapter(judge.adapter, to);
  const sampled = played.reduce((sum, { trajectory }) => sum + trajectory.measures["sampledTokens"]!, 0);
  return {
    sampledTokens: sampled + labelled.reduce((sum, { sampledTokens }) => sum + sampledTokens, 0),
    labelled: labelled.reduce((sum, { labels }) => sum + labels.length, 0),
    loss: [losses[0]!, losses.at(-1)!],
  };

  /** One pass over the labels in an order of its own, a quarter of the episodes a step. */
  async function pass(all: readonly LabelledSteps[], epoch: number): Promise<number> {
    const order = permutation(rng(seed, "judge", epoch), all.length);
    const size = Math.ceil(all.length / 4);
    let sum = 0;
    for (let at = 0; at < order.length; at += size) {
      const batch = labelledBatch(order.slice(at, at + size).map((index) => all[index]!), judge.at);
      if (batch === null) continue;
      const { loss } = await engine.forwardBackward(batch, processRewardModel().loss, { adapter: judge.adapter });
      const rate = learningRateAt(4 * epoch + at / size, { base: learningRate, schedule: "cosine", warmup: 4, total: 4 * epochs });
      const adamw = { learningRate: rate, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
      await engine.optimStep({ ...adamw, adapter: judge.adapter });
      sum += loss / 4;
    }
    return sum;
  }
}
