/**
 * `train`: from a configuration to a trained run folder. The configuration is checked and the plan is told before any weights are
 * read; the preflight grades reference answers before anything is sampled.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { openAlgorithm } from "../algo/registry.ts";
import { openPolicy, readModelFacts, rendererOf, type OpenedPolicy } from "../compute/policy/open.ts";
import { loraOptions, loraShapes, type LoraOptions } from "../compute/models/lora.ts";
import { parameterCount } from "../compute/policy/local/memory.ts";
import { openEnv } from "../env/index.ts";
import { ConfigError, expected } from "../errors.ts";
import type { Algorithm, Env, OfflineAlgorithm } from "../types.ts";
import { attachModels, checkPlayed, type AttachedModels } from "./attach.ts";
import { configJson, parseTrainConfig, type TrainConfig, type TrainConfigInput } from "./config.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { inputsOf, type ExtraInputs } from "./inputs.ts";
import { plan, planJson, type Plan, type PlanFacts } from "./plan.ts";
import { preflight } from "./preflight.ts";
import { openRun, type Run } from "./record/run-folder.ts";
import type { TrainObserver } from "./keep.ts";
import { readExamples, type Example } from "./examples.ts";
import { addLearners } from "./learners.ts";
import { trainOffline } from "./offline.ts";
import { isPrecomputed } from "./reference.ts";
import { trainSync } from "./sync.ts";
import { terminal } from "./terminal.ts";

export interface TrainOptions {
  /** The environment, where it is not one that a configuration can name. Its name is what the configuration then says. */
  readonly env?: Env;
  /** An algorithm of one's own, in place of one that a configuration can name. Its settings are a part of the run's hash. */
  readonly algorithm?: Algorithm;
  /**
   * Called when the policy is open and before a checkpoint is read into it: adds adapters to its engine (a reward model's) and says
   * what they are used for.
   */
  readonly attach?: (policy: OpenedPolicy) => Promise<AttachedModels>;
  /** What `attach`, `env` or `algorithm` read beside the configuration: a run is resumed only if all of it is as it was. */
  readonly inputs?: ExtraInputs;
  readonly runsFolder?: string;
  readonly resume?: boolean;
  /** Told what happens; default `terminal()` where standard error is a terminal, else nothing. */
  readonly observer?: TrainObserver & { readonly onPlan?: (config: TrainConfig, plan: Plan) => void };
  readonly signal?: AbortSignal;
}

export interface TrainResult {
  readonly folder: string;
  readonly steps: number;
  /** The last held-out evaluation of this process. */
  readonly evaluation: Evaluation | undefined;
  /** Why the run ended before its last step, if it did. */
  readonly stopped?: string;
}

/** Runs (or resumes) a training run. Throws one-line errors for whatever is wrong with what it was given. */
export async function train(
  input: TrainConfigInput,
  { env, algorithm: own, attach, inputs: extra, runsFolder = "runs", resume = false, observer = usual(), signal }: TrainOptions = {},
): Promise<TrainResult> {
  const config = placed(parseTrainConfig(input, own === undefined ? {} : { algorithm: own }));
  const algorithm = own ?? openAlgorithm(config.algo);
  const environment = env ?? (config.env === undefined ? undefined : await openEnv(config.env));
  checkSources(config, algorithm, { env: environment, attached: attach !== undefined });
  // Where a model that is still to be attached may grade, and nothing is evaluated, the environment's own reward is not asked.
  const graded = attach === undefined || config.train.evalEvery > 0;
  const abort = signal === undefined ? {} : { signal };
  const { facts, examples } = await checkedFacts(config, { env: environment, algorithm, graded, onRead: observer.onRead, ...abort });
  const made = plan(config, facts, algorithm);
  const inputs = await inputsOf(config, { env: environment, extra, signal });
  await using run = await openRun({
    folder: join(runsFolder, config.name),
    config: configJson(config),
    plan: planJson(made),
    inputs,
    resume,
  });
  observer.onPlan?.(config, made);
  for (const note of run.notes) observer.onNote?.(note);
  if (run.lastStep >= config.train.steps) {
    observer.onNote?.(`all ${run.lastStep} steps of this run are done; nothing is left to train`);
    return { folder: run.folder, steps: run.lastStep, evaluation: undefined };
  }
  const { policy: opened, models } = await openTrainable(config, { run, algorithm, ...(attach === undefined ? {} : { attach }) });
  await using policy = opened;
  const { play } = models;
  const context = {
    config,
    policy: play === undefined ? policy : { ...policy, play },
    run,
    observer,
    ...(environment === undefined ? {} : { env: environment }),
    ...abort,
  };
  if (!graded && models.reward === undefined && environment !== undefined) {
    const { renderer, engine } = policy;
    const limits = { renderer, contextLength: engine.info.contextLength, maxTokens: config.rollout.maxTokens };
    await preflight(environment, environment.tasks("train"), { ...limits, ...abort });
  }
  const result =
    algorithm.kind === "offline"
      ? { evaluation: await trainOffline({ ...context, algorithm, examples }) }
      : await trainSync({ ...context, ...models, env: environment!, algorithm });
  return { folder: run.folder, steps: run.lastStep, ...result };
}

const usual = (): NonNullable<TrainOptions["observer"]> => (process.stderr.isTTY === true ? terminal() : {});

/** A model on disk is named by its absolute path from here on, so that the run can be opened from any folder. */
function placed(config: TrainConfig): TrainConfig {
  const path = resolve(config.model.path);
  return existsSync(path) ? { ...config, model: { ...config.model, path } } : config;
}

function loraOf(model: TrainConfig["model"]): LoraOptions | undefined {
  return model.adapter === "lora" ? loraOptions(model) : undefined;
}

/** What an algorithm trains on is there, and nothing is given that it would ignore. */
function checkSources(
  { data, env: named }: TrainConfig,
  algorithm: Algorithm | OfflineAlgorithm,
  { env, attached }: { readonly env: Env | undefined; readonly attached: boolean },
): void {
  const { kind, name } = algorithm;
  if (algorithm.kind === "offline" && data === undefined) {
    throw new ConfigError(expected("data", `a JSONL file of ${algorithm.examples}, which ${name} trains on`, "nothing"));
  }
  if (kind === "sampled" && data !== undefined) {
    throw new ConfigError(expected("data", `nothing with ${name}, which trains on what it samples`, data, "leave it out"));
  }
  if (kind === "sampled" && env === undefined) {
    throw new ConfigError(expected("env", `an environment, which ${name} samples in`, "nothing"));
  }
  if (algorithm.kind === "sampled" && algorithm.needs?.includes("turnScores") === true && !attached) {
    const remedy = "hand one to train({ attach }) in a program, as the algorithm's page shows";
    throw new ConfigError(expected("algo.name", "an algorithm that needs no scorer of turns", name, remedy));
  }
  if (env !== undefined && named !== undefined && named.name !== env.name) {
    throw new ConfigError(expected("env.name", `"${env.name}", the environment that was handed in`, `"${named.name}"`));
  }
}

interface OpenOptions {
  readonly run: Run;
  readonly algorithm: Algorithm | OfflineAlgorithm;
  readonly attach?: TrainOptions["attach"];
}

/** Opens the model with the run's weights. A new run whose model does not open leaves its name free for the next attempt. */
async function openTrainable(
  config: TrainConfig,
  { run, algorithm, attach }: OpenOptions,
): Promise<{ policy: OpenedPolicy; models: AttachedModels }> {
  const lora = loraOf(config.model);
  const offline = algorithm.kind === "offline";
  const reference = offline ? algorithm.needsReference && !isPrecomputed(algorithm) : (algorithm.needs?.includes("reference") ?? false);
  let policy: OpenedPolicy | undefined;
  try {
    policy = await openPolicy(config.model.path, {
      train: lora === undefined ? { type: "full" } : { type: "lora", lora },
      reference,
      seed: config.seed,
      microBatchTokens: config.train.microBatchTokens,
      maxRows: config.rollout.concurrency,
    });
    const models = (await attach?.(policy)) ?? {};
    if (models.play !== undefined) checkPlayed(config, algorithm);
    if (algorithm.kind === "sampled") attachModels(policy.engine, { config, algorithm, models });
    else addLearners(policy.engine, algorithm, config);
    if (run.resumedFrom !== null) await policy.engine.load(run.resumedFrom.folder);
    else await policy.engine.publish();
    return { policy, models };
  } catch (cause) {
    await policy?.[Symbol.asyncDispose]();
    await run.discard();
    throw cause;
  }
}

interface CheckOptions {
  readonly env: Env | undefined;
  readonly algorithm: Algorithm | OfflineAlgorithm;
  readonly graded: boolean;
  readonly onRead: TrainObserver["onRead"];
  readonly signal?: AbortSignal;
}

/** Reads the model's configuration and tokenizer, checks tasks and examples against them, and says what the plan needs to know. */
async function checkedFacts(
  config: TrainConfig,
  { env, algorithm, onRead, ...grading }: CheckOptions,
): Promise<{ readonly facts: PlanFacts; readonly examples: readonly Example[] }> {
  const { files, architecture: a } = await readModelFacts(config.model.path);
  try {
    const renderer = rendererOf(files);
    const source = env?.tasks("train");
    const lora = loraOf(config.model);
    const size = (shape: readonly number[]): number => shape.reduce((x, y) => x * y, 1);
    const trainable =
      lora === undefined ? parameterCount(a) : [...loraShapes(a, lora).values()].reduce((sum, shape) => sum + size(shape), 0);
    if (env !== undefined && source !== undefined) {
      await preflight(env, source, { renderer, contextLength: a.context, maxTokens: config.rollout.maxTokens, ...grading });
    }
    const reading = { renderer, contextLength: a.context, ...grading, ...(onRead === undefined ? {} : { onRead }) };
    const examples = algorithm.kind === "offline" ? await readExamples(config.data!, algorithm, reading) : [];
    const facts = {
      trainTasks: algorithm.kind === "offline" ? trainedCount(config, examples.length) : (source?.size ?? 0),
      testTasks: config.train.evalEvery === 0 || env === undefined ? 0 : env.tasks("test").size,
      contextLength: a.context, parameters: parameterCount(a), trainable, layers: a.layers,
      hidden: a.hidden, intermediate: a.intermediate, vocabulary: a.vocabulary, cachePerTokenLayer: 2 * a.kvHeads * a.headDim,
    };
    return { facts, examples };
  } finally {
    await files.close();
  }
}

/** Examples that are trained on: all but the held-out ones. */
function trainedCount({ data, train: { evalRows } }: TrainConfig, length: number): number {
  if (length > evalRows) return length - evalRows;
  throw new ConfigError(expected("train.evalRows", `fewer than the ${length} examples of ${data}`, String(evalRows)));
}
