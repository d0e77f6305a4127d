/**
 * Synchronous on-policy training: sample, grade, give credit, make a batch, take a step, publish; then the next step samples from
 * the new weights. The order of the stages stands here and nowhere else.
 */
import { buildBatch, type BatchOptions } from "../loop/batch/rows.ts";
import { tasksOfStep } from "../loop/prompt/order.ts";
import type { Algorithm, Env } from "../types.ts";
import { collectGroups } from "./collect.ts";
import { noEvidence } from "./evidence.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { StepKeeper, type RunContext } from "./keep.ts";
import { encodeRollout } from "./record/trajectory-codec.ts";
import { RewardPartsDetector } from "./reward-parts.ts";
import { SignalDetector, signalOf } from "./signal.ts";
import { stepMetrics } from "./step-metrics.ts";
import { updatePolicy } from "./update.ts";

interface SyncRun extends RunContext {
  readonly env: Env;
  readonly algorithm: Algorithm;
}

/** Trains until `config.train.steps` steps are committed; returns the last evaluation. */
export async function trainSync(sync: SyncRun): Promise<Evaluation | undefined> {
  const { config, env, algorithm, policy, run, observer, signal } = sync;
  const { seed, rollout, optim } = config;
  const source = env.tasks("train");
  const detector = new SignalDetector(rollout.maxTokens);
  const partsDetector = new RewardPartsDetector();
  const keeper = new StepKeeper(sync);
  const abort = signal === undefined ? {} : { signal };
  await keeper.start();
  for (let step = run.lastStep + 1; step <= config.train.steps; step++) {
    const started = performance.now();
    const tasks = tasksOfStep(source, { seed, step, count: rollout.tasksPerStep });
    const onRollout = (done: number, total: number): void => observer.onRollout?.(done, total, "train");
    const groups = await collectGroups(env, tasks, {
      ...rollout,
      ...abort,
      policy,
      seed,
      step,
      stage: "train",
      groupSize: algorithm.groupSize,
      onRollout,
    });
    const sampled = performance.now();
    const credits = algorithm.credit(groups, noEvidence(rollout));
    const built = buildBatch(credits, batchOptions(sync));
    const signals = signalOf(groups);
    const warnings = [detector.observe(signals), partsDetector.observe(groups, keeper.evaluation)];
    for (const warning of warnings) if (warning !== undefined) observer.onNote?.(warning);
    const schedule = { updates: (step - 1) * algorithm.epochsPerBatch, totalUpdates: config.train.steps * algorithm.epochsPerBatch };
    const update =
      built.batch === null ? null : await updatePolicy(policy.engine, built.batch, { algorithm, optim, ...schedule, ...abort });
    const seconds = { rollout: (sampled - started) / 1000, update: (performance.now() - sampled) / 1000 };
    const members = groups.flatMap((group, g) => group.members.map((scored, i) => ({ scored, credit: credits[g]![i] ?? null })));
    await keeper.keep({
      step,
      tasks: tasks.map(({ id }) => id),
      rollouts: members.map(({ scored }) => scored.trajectory.id),
      trajectories: members.map(({ scored, credit }) => encodeRollout(scored, credit)),
      update,
      metrics: stepMetrics({ step, groups, built, signals, update, seconds }),
    });
  }
  return keeper.evaluation;
}

function batchOptions({ config: { rollout }, algorithm }: SyncRun): BatchOptions {
  const { reduction, maskTruncated, keepZero = false } = algorithm;
  return { reduction, maskTruncated, maxLength: rollout.maxTokens * rollout.maxTurns, skipZero: !keepZero };
}
