/**
 * Offline training on given examples (supervised fine-tuning, preferences, reward models): the same run folder, checkpoints and
 * schedule as with sampling.
 */
import { join } from "node:path";
import { learningRateAt } from "../loop/update/schedule.ts";
import type { Batch, Engine, OfflineAlgorithm } from "../types.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { batchOf, type Example } from "./examples.ts";
import { evaluateExamples } from "./heldout-examples.ts";
import { StepKeeper, type RunContext } from "./keep.ts";
import { learnersOf, type Learner } from "./learners.ts";
import { openReference, type AddReference } from "./reference.ts";
import { writeRewardModel } from "./reward-files.ts";
import { updateMetrics, type UpdateResult } from "./update.ts";

interface OfflineRun extends RunContext {
  readonly algorithm: OfflineAlgorithm;
  readonly examples: readonly Example[];
}

/** Trains until `config.train.steps` steps of `rollout.tasksPerStep` examples are committed. */
export async function trainOffline(offline: OfflineRun): Promise<Evaluation | undefined> {
  const { config, algorithm, examples } = offline;
  const size = examples.length - config.train.evalRows;
  const learners = learnersOf({ config, algorithm, size });
  const addReference = await openReference(offlineReference(offline));
  const keeper = new StepKeeper({ ...offline, ...heldoutOf(offline, { size, learners, addReference }) });
  await keeper.guard(() => takeSteps(offline, { learners, addReference, keeper, size }));
  return keeper.evaluation;
}

interface OfflineParts {
  readonly learners: readonly Learner[];
  readonly addReference: AddReference;
  readonly keeper: StepKeeper;
  /** Examples that are trained on: the first ones. */
  readonly size: number;
}

async function takeSteps(offline: OfflineRun, { learners, addReference, keeper, size }: OfflineParts): Promise<void> {
  const { config, algorithm, examples, run } = offline;
  const { engine } = offline.policy;
  await keeper.start();
  for (let step = run.lastStep + 1; step <= config.train.steps; step++) {
    const started = performance.now();
    const updates: UpdateResult[] = [];
    const used: string[] = [];
    let tokens = 0;
    for (const learner of learners) {
      const indices = learner.indices(step);
      const plain = batchOf(indices.map((index) => examples[index]!), algorithm);
      const batch = await withScalars(await addReference(plain, indices), { algorithm, engine });
      updates.push(await updateAdapter(batch, { ...offline, adapter: learner.adapter, step, keeper }));
      used.push(...indices.map((index) => nameOf(learner, learners.length, examples[index]!.kind, index)));
      tokens += batch.scalars["tokens"]!;
    }
    const update = together(updates);
    const seconds = (performance.now() - started) / 1000;
    const metrics = { step, ...updateMetrics(update), "batch/tokens": tokens, "seconds/update": seconds };
    if (step === config.train.steps && algorithm.trains === "reward")
      await writeRewardModel(join(run.folder, "reward-model"), { ...offline, examples: examples.slice(0, size) });
    await keeper.keep({ step, tasks: used, rollouts: [], trajectories: [], update, metrics });
  }
}

function offlineReference({ algorithm, examples, policy, run, signal }: OfflineRun): Parameters<typeof openReference>[0] {
  return { algorithm, examples, engine: policy.engine, run, ...(signal === undefined ? {} : { signal }) };
}

/** The last `train.evalRows` examples are the held-out ones. */
function heldoutOf(
  { config, algorithm, examples, policy, signal }: OfflineRun,
  { size, learners, addReference }: { size: number; learners: readonly Learner[]; addReference: AddReference },
): Pick<RunContext, "heldout"> {
  if (size === examples.length || config.train.evalEvery === 0) return {};
  const options = {
    algorithm,
    addReference,
    examples: examples.slice(size),
    indices: Array.from({ length: examples.length - size }, (_, i) => size + i),
    engine: policy.engine,
    adapters: learners.map(({ adapter }) => adapter),
    ...(signal === undefined ? {} : { signal }),
  };
  return { heldout: () => evaluateExamples(options) };
}

async function withScalars(
  batch: Batch,
  { algorithm, engine }: { readonly algorithm: OfflineAlgorithm; readonly engine: Engine },
): Promise<Batch> {
  if (algorithm.scalars === undefined) return batch;
  return { ...batch, scalars: { ...batch.scalars, ...(await algorithm.scalars(batch, engine)) } };
}

async function updateAdapter(
  batch: Batch,
  { algorithm, config, policy, signal, adapter, step, keeper }: OfflineRun & {
    readonly adapter: string;
    readonly step: number;
    readonly keeper: StepKeeper;
  },
): Promise<UpdateResult> {
  const { optim, train } = config;
  const first = await policy.engine.forwardBackward(batch, algorithm.loss, { adapter, ...(signal === undefined ? {} : { signal }) });
  const learningRate = learningRateAt(step - 1, {
    base: optim.learningRate,
    schedule: optim.schedule,
    warmup: optim.warmupSteps,
    total: train.steps,
  });
  keeper.changing();
  return { first, optim: [await policy.engine.optimStep({ ...optim, learningRate, adapter })], learningRate, samplerGap: 0 };
}

/** One update of several models: means of their numbers, sums of their tokens. */
function together(updates: readonly UpdateResult[]): UpdateResult {
  const [one] = updates;
  if (updates.length === 1) return one!;
  const mean = (of: (update: UpdateResult) => number): number => updates.reduce((sum, update) => sum + of(update), 0) / updates.length;
  const keys = Object.keys(one!.first.metrics);
  const tokens = {
    trained: updates.reduce((sum, { first }) => sum + first.tokens.trained, 0),
    processed: updates.reduce((sum, { first }) => sum + first.tokens.processed, 0),
  };
  return {
    first: {
      loss: mean(({ first }) => first.loss),
      metrics: Object.fromEntries(keys.map((key) => [key, mean(({ first }) => first.metrics[key]!)])),
      logprobs: updates.flatMap(({ first }) => first.logprobs),
      tokens,
    },
    optim: updates.flatMap(({ optim }) => optim),
    learningRate: one!.learningRate,
    samplerGap: 0,
  };
}

/** As the ledger names an example. */
function nameOf({ adapter }: Learner, learners: number, kind: string, index: number): string {
  return learners === 1 ? `${kind} ${index + 1}` : `${adapter}: ${kind} ${index + 1}`;
}
