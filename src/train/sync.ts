/**
 * Synchronous on-policy training: sample, grade, give credit, make a batch, take a step, publish; then the next step samples from
 * the new weights. The order of the stages stands here and nowhere else.
 */
import { PolicyError, expected } from "../errors.ts";
import { buildBatch } from "../loop/batch/rows.ts";
import { tasksOfStep } from "../loop/prompt/order.ts";
import type { Policy } from "../loop/rollout/episode.ts";
import type { Algorithm, Engine, Env, Group, Task } from "../types.ts";
import { collectGroups } from "./collect.ts";
import type { TrainConfig } from "./config.ts";
import { evaluate, type Evaluation } from "./evaluate/evaluate.ts";
import { writeCheckpoint } from "./record/checkpoint.ts";
import type { MetricsRow } from "./record/metrics.ts";
import type { Run } from "./record/run-folder.ts";
import { encodeRollout } from "./record/trajectory-codec.ts";
import { SignalDetector, signalOf } from "./signal.ts";
import { evaluationMetrics, stepMetrics } from "./step-metrics.ts";
import { updatePolicy, type UpdateResult } from "./update.ts";

/** Everything a synchronous run works with. */
export interface SyncRun {
  readonly config: TrainConfig;
  readonly env: Env;
  readonly algorithm: Algorithm;
  readonly policy: Policy & { readonly engine: Engine };
  readonly run: Run;
  readonly observer: TrainObserver;
  readonly signal?: AbortSignal;
}

/** Told of everything worth showing. */
export interface TrainObserver {
  readonly onStep?: (row: MetricsRow) => void;
  readonly onEvaluation?: (evaluation: Evaluation, step: number) => void;
  readonly onRollout?: (done: number, total: number, phase: "train" | "heldout") => void;
  readonly onNote?: (text: string) => void;
}

/** Trains until `config.train.steps` steps are committed; returns the last evaluation. */
export async function trainSync(sync: SyncRun): Promise<Evaluation | undefined> {
  const { config, env, algorithm, policy, run, observer, signal } = sync;
  const source = env.tasks("train");
  const detector = new SignalDetector(config.rollout.maxTokens);
  let updates = Number(run.resumedFrom?.manifest.extra["updates"] ?? 0);
  let failures = 0;
  let last = run.lastStep === 0 && run.resumedFrom === null ? await evaluateAndRecord(sync, 0) : undefined;
  for (let step = run.lastStep + 1; step <= config.train.steps; step++) {
    const started = performance.now();
    const tasks = tasksOfStep(source, { seed: config.seed, step, count: config.rollout.tasksPerStep });
    const groups = await sampleAndGrade(sync, tasks, step);
    const sampled = performance.now();
    const credits = algorithm.credit(groups);
    const built = buildBatch(credits, batchOptions(config, algorithm));
    const signals = signalOf(groups);
    const warning = detector.observe(signals, groups);
    if (warning !== undefined) observer.onNote?.(warning);
    const totalUpdates = config.train.steps * algorithm.epochsPerBatch;
    const update = built.batch === null ? null
      : await updatePolicy(policy.engine, built.batch, { algorithm, optim: config.optim, totalUpdates, updates, ...(signal === undefined ? {} : { signal }) });
    updates += algorithm.epochsPerBatch; // a skipped step advances the schedule too, so that it depends on the step alone
    failures = update === null || !skipped(update) ? 0 : failures + 1;
    const version = update === null || skipped(update) ? policy.engine.version : await policy.engine.publish();
    const seconds = { rollout: (sampled - started) / 1000, update: (performance.now() - sampled) / 1000 };
    const row = stepMetrics({ step, groups, built, signals, update, seconds });
    const checkpointed = step % config.train.checkpointEvery === 0 || step === config.train.steps;
    await run.commitStep({
      entry: {
        step, version,
        tasks: tasks.map(({ id }) => id),
        rollouts: groups.flatMap(({ members }) => members.map(({ trajectory }) => trajectory.id)),
        ...(update === null ? { skipped: "no group has a gradient" } : skipped(update) ? { skipped: skipReason(update) } : {}),
        ...(checkpointed ? { checkpoint: checkpointNameOf(step) } : {}),
      },
      metrics: row,
      trajectories: groups.flatMap(({ members }, g) => members.map((scored, i) => encodeRollout(scored, credits[g]![i] ?? null))),
    });
    observer.onStep?.(row);
    if (failures >= 3) throw new PolicyError(expected(`steps ${step - 2} to ${step}`, "finite gradients", skipReason(update!), "lower optim.learningRate; the weights are those before"));
    const due = config.train.evalEvery > 0 && step % config.train.evalEvery === 0;
    if (due || step === config.train.steps) last = await evaluateAndRecord(sync, step);
    if (checkpointed) {
      const score = last !== undefined && (due || step === config.train.steps) ? { score: last.score } : {};
      await writeCheckpoint(run, { step, save: (folder) => policy.engine.save(folder), extra: { updates }, keep: config.train.keepCheckpoints, ...score });
    }
  }
  return last;
}

const checkpointNameOf = (step: number): string => `step-${String(step).padStart(6, "0")}`;

const skipped = ({ optim }: UpdateResult): boolean => optim.every(({ type }) => type === "skipped");

function skipReason({ optim }: UpdateResult): string {
  const first = optim.find((result) => result.type === "skipped");
  return first?.type === "skipped" ? `gradient of ${first.tensor} is ${String(first.value)}` : "none";
}

function sampleAndGrade({ config, env, algorithm, policy, observer, signal }: SyncRun, tasks: readonly Task[], step: number): Promise<Group[]> {
  return collectGroups(env, tasks, {
    ...config.rollout,
    policy, step,
    seed: config.seed,
    stage: "train",
    groupSize: algorithm.groupSize,
    onRollout: (done, total) => observer.onRollout?.(done, total, "train"),
    ...(signal === undefined ? {} : { signal }),
  });
}

function batchOptions(config: TrainConfig, algorithm: Algorithm): Parameters<typeof buildBatch>[1] {
  return {
    reduction: algorithm.reduction,
    maskTruncated: algorithm.maskTruncated,
    maxLength: config.rollout.maxTokens * config.rollout.maxTurns,
    skipZero: !algorithm.needsReference,
  };
}

/** The first held-out tasks, sampled as in training and with the same random numbers each time, so that before and after are a pair. */
async function evaluateAndRecord({ config, env, policy, run, observer, signal }: SyncRun, step: number): Promise<Evaluation | undefined> {
  if (config.train.evalEvery === 0) return undefined;
  const source = env.tasks("test");
  const tasks = Array.from({ length: Math.min(config.train.evalTasks, source.size) }, (_, i) => source.at(i));
  const evaluation = await evaluate(env, tasks, {
    ...config.rollout,
    policy, step: 0,
    seed: config.seed,
    onRollout: (done, total) => observer.onRollout?.(done, total, "heldout"),
    ...(signal === undefined ? {} : { signal }),
  });
  await run.recordEvaluation(evaluationMetrics(step, evaluation), evaluation.samples.map((scored) => encodeRollout(scored, null)));
  observer.onEvaluation?.(evaluation, step);
  return evaluation;
}
