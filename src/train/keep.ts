/** What every kind of run does after a step: commit it, watch for broken gradients, evaluate and write checkpoints when due. */
import { PolicyError, expected } from "../errors.ts";
import type { Policy } from "../loop/rollout/episode.ts";
import type { Engine, Env, JsonObject } from "../types.ts";
import type { TrainConfig } from "./config.ts";
import { evaluate, type Evaluation } from "./evaluate/evaluate.ts";
import type { HeldoutScores } from "./heldout-examples.ts";
import { checkpointName, writeCheckpoint } from "./record/checkpoint.ts";
import type { MetricsRow } from "./record/metrics.ts";
import type { Run } from "./record/run-folder.ts";
import { encodeRollout } from "./record/trajectory-codec.ts";
import { evaluationMetrics } from "./step-metrics.ts";
import type { UpdateResult } from "./update.ts";

/** Told of everything worth showing. */
export interface TrainObserver {
  /** Bytes of `data` that were read and encoded; called only while that takes long. */
  readonly onRead?: (done: number, total: number) => void;
  readonly onStep?: (row: MetricsRow) => void;
  readonly onEvaluation?: (evaluation: Evaluation, step: number) => void;
  readonly onRollout?: (done: number, total: number, phase: "train" | "heldout") => void;
  readonly onNote?: (text: string) => void;
}

/** What all kinds of runs work with; `env` is absent in a supervised run that is not evaluated by reward. */
export interface RunContext {
  readonly config: TrainConfig;
  readonly env?: Env;
  readonly policy: Policy & { readonly engine: Engine };
  readonly run: Run;
  readonly observer: TrainObserver;
  readonly signal?: AbortSignal;
  /** Evaluates on given examples that are never trained on. */
  readonly heldout?: () => Promise<HeldoutScores>;
}

interface KeptStep {
  readonly step: number;
  readonly tasks: readonly string[];
  readonly rollouts: readonly string[];
  /** Lines of `encodeRollout`. */
  readonly trajectories: readonly string[];
  /** Null: nothing had a gradient. */
  readonly update: UpdateResult | null;
  /** Why the policy was not updated, where it is not for want of a gradient. */
  readonly unchanged?: string;
  readonly metrics: MetricsRow;
  /** What the next step needs to know besides weights, kept in the checkpoint. */
  readonly extra?: JsonObject;
  /** The run ends here, before its time. */
  readonly ends?: boolean;
}

/** Optimiser steps without effect in a row that end a run. */
const patience = 3;

/** Who interrupts a run waits for two seconds at most: a checkpoint that is larger, or took longer before, is then not tried. */
const hasty = { bytes: 64e6, seconds: 0.5 };

export class StepKeeper {
  readonly #context: RunContext;
  #failures = 0;
  #evaluation: Evaluation | undefined;
  /** Of the last evaluation on examples. */
  #examples: HeldoutScores | undefined;
  /** What the last committed step handed on, as long as the engine holds that step's weights; what is checkpointed; how long it took. */
  #whole: JsonObject | undefined;
  #saved: number;
  #seconds: number | undefined;

  constructor(context: RunContext) {
    this.#context = context;
    this.#saved = context.run.resumedFrom?.manifest.step ?? 0;
  }

  /** Runs all steps. An interruption between two updates leaves a checkpoint of the last committed step, if there is time for one. */
  async guard<T>(steps: () => Promise<T>): Promise<T> {
    try {
      return await steps();
    } catch (cause) {
      if (this.#context.signal?.aborted === true) await this.#saveInHaste();
      throw cause;
    }
  }

  /** Called before weights are written: from then until `keep` has returned they are those of no committed step. */
  changing(): void {
    this.#whole = undefined;
  }

  /** The last evaluation of this process. */
  get evaluation(): Evaluation | undefined {
    return this.#evaluation;
  }

  /** Evaluates before the first step of a new run. */
  async start(): Promise<void> {
    const { run } = this.#context;
    if (run.lastStep === 0 && run.resumedFrom === null) await this.#evaluate(0);
  }

  /** Publishes the new weights (if there are any) and commits the step. */
  async keep({ step, tasks, rollouts, trajectories, update, unchanged, metrics, extra = {}, ends = false }: KeptStep): Promise<void> {
    const { config, policy, run, observer } = this.#context;
    const broken = update === null ? undefined : brokenUpdate(update);
    const critic = Number.isNaN(metrics["critic/gradNorm"]) ? "the critic's loss or gradient is not finite" : undefined;
    this.#failures = (broken ?? critic) === undefined ? 0 : this.#failures + 1;
    const skipped = update === null ? (unchanged ?? "no group has a gradient") : (broken ?? refusedStep(update));
    const version = skipped !== undefined ? policy.engine.version : await policy.engine.publish();
    const last = ends || step === config.train.steps;
    const checkpointed = last || step % config.train.checkpointEvery === 0;
    const entry = {
      step,
      version,
      tasks,
      rollouts,
      ...(skipped === undefined ? {} : { skipped }),
      ...(checkpointed ? { checkpoint: checkpointName(step) } : {}),
    };
    await run.commitStep({ entry, metrics, trajectories });
    observer.onStep?.(metrics);
    if (broken !== undefined) observer.onNote?.(`step ${step}: ${broken}; the weights were not changed`);
    if (critic !== undefined) observer.onNote?.(`step ${step}: ${critic}; the critic was not changed`);
    if (this.#failures >= patience) {
      throw new PolicyError(
        expected(
          `the last ${patience} steps`,
          "finite losses and gradients",
          (broken ?? critic)!,
          "lower optim.learningRate; the weights are those before these steps",
        ),
      );
    }
    const due = config.train.evalEvery > 0 && (last || step % config.train.evalEvery === 0);
    if (due) await this.#evaluate(step);
    if (checkpointed) {
      const held = due ? (this.#evaluation ?? this.#examples)?.score : undefined;
      await this.#save(step, extra, held === undefined || Number.isNaN(held) ? {} : { score: held });
    }
    this.#whole = extra;
  }

  async #save(step: number, extra: JsonObject, score: { readonly score?: number } = {}): Promise<void> {
    const { config, policy, run } = this.#context;
    const started = performance.now();
    const save = (folder: string): Promise<void> => policy.engine.save(folder);
    await writeCheckpoint(run, { step, save, extra, keep: config.train.keepCheckpoints, ...score });
    this.#saved = step;
    this.#seconds = (performance.now() - started) / 1000;
  }

  async #saveInHaste(): Promise<void> {
    const { run, policy } = this.#context;
    // Weights and two moments in float32, of the policy and of what is trained beside it.
    const bytes = 12 * policy.engine.info.trainable * Math.max(1, policy.engine.info.adapters.length);
    const inTime = this.#seconds === undefined ? bytes <= hasty.bytes : this.#seconds <= hasty.seconds;
    if (this.#whole === undefined || this.#saved === run.lastStep || !inTime) return;
    // It was not asked for: where it fails, the run goes on from the checkpoint before.
    await this.#save(run.lastStep, this.#whole).catch(() => undefined);
  }

  /** Held-out examples and held-out tasks, where a run has them. */
  async #evaluate(step: number): Promise<void> {
    const { config, run, observer, heldout } = this.#context;
    if (config.train.evalEvery === 0) return;
    this.#examples = await heldout?.();
    if (this.#examples !== undefined) observer.onNote?.(`step ${step}: ${this.#examples.text}`);
    const evaluation = await this.#evaluateTasks();
    if (evaluation === undefined && this.#examples === undefined) return;
    const sampled = evaluation === undefined ? { step } : evaluationMetrics(step, evaluation);
    const rollouts = evaluation?.samples.map((scored) => encodeRollout(scored, null)) ?? [];
    await run.recordEvaluation({ ...this.#examples?.metrics, ...sampled }, rollouts);
    this.#evaluation = evaluation;
    if (evaluation !== undefined) observer.onEvaluation?.(evaluation, step);
  }

  /** The first held-out tasks, sampled as in training and with the same random numbers each time, so that before and after are a pair. */
  async #evaluateTasks(): Promise<Evaluation | undefined> {
    const { config, env, policy, observer, signal } = this.#context;
    if (env === undefined) return undefined;
    const source = env.tasks("test");
    const tasks = Array.from({ length: Math.min(config.train.evalTasks, source.size) }, (_, i) => source.at(i));
    return evaluate(env, tasks, {
      ...config.rollout,
      policy,
      step: 0,
      seed: config.seed,
      onRollout: (done, total) => observer.onRollout?.(done, total, "heldout"),
      ...(signal === undefined ? {} : { signal }),
    });
  }
}

/** A trust region in which no step was found leaves the weights as they were. */
function refusedStep({ trust }: UpdateResult): string | undefined {
  if (trust === undefined || trust.accepted) return undefined;
  return trust.gradNorm === 0 ? "no group has a gradient" : "no step within the trust region improves the surrogate";
}

/** What was not finite, loss or gradient, if no optimiser step of the update took effect. */
function brokenUpdate({ first, optim, trust }: UpdateResult): string | undefined {
  if (trust !== undefined) {
    if (!Number.isFinite(first.loss)) return `the loss is ${first.loss}`;
    return Number.isFinite(trust.gradNorm) ? undefined : `the gradient's norm is ${trust.gradNorm}`;
  }
  const one = optim[0];
  if (one?.type !== "skipped" || optim.some(({ type }) => type !== "skipped")) return undefined;
  return `${one.tensor === "loss" ? "the loss" : `the gradient of ${one.tensor}`} is ${one.value}`;
}
