/** What each stage of a synchronous step is given, from the run's configuration and algorithm. */
import type { BatchOptions } from "../loop/batch/rows.ts";
import type { Algorithm, Credit, Env, Group } from "../types.ts";
import type { AttachedModels } from "./attach.ts";
import type { CollectedStep, StepOptions } from "./collect.ts";
import type { RunContext } from "./keep.ts";
import { encodeRollout } from "./record/trajectory-codec.ts";
import type { UpdateOptions } from "./update.ts";

export interface SyncRun extends RunContext, Pick<AttachedModels, "reward" | "turnScorer"> {
  readonly env: Env;
  readonly algorithm: Algorithm;
}

export function rolloutOptions({ config, algorithm, policy, observer, reward, signal }: SyncRun, step: number): StepOptions {
  return {
    ...config.rollout,
    ...(signal === undefined ? {} : { signal }),
    ...(reward === undefined ? {} : { reward }),
    policy,
    algorithm,
    seed: config.seed,
    step,
    onRollout: (done, total) => observer.onRollout?.(done, total, "train"),
  };
}

export function batchOptions(
  { config: { rollout }, algorithm }: SyncRun,
  more: Pick<BatchOptions, "evidence" | "scalars">,
): BatchOptions {
  const { reduction, maskTruncated, keepZero = false } = algorithm;
  return { ...more, reduction, maskTruncated, maxLength: rollout.maxTokens * rollout.maxTurns, skipZero: !keepZero };
}

export function updateOptions({ config, algorithm, signal }: SyncRun, step: number): UpdateOptions {
  const { epochsPerBatch } = algorithm;
  return {
    algorithm,
    optim: config.optim,
    updates: (step - 1) * epochsPerBatch,
    totalUpdates: config.train.steps * epochsPerBatch,
    ...(signal === undefined ? {} : { signal }),
  };
}

interface StepRecord {
  /** Every group that was sampled. */
  readonly groups: readonly Group[];
  readonly tasks: readonly string[];
  readonly rollouts: readonly string[];
  readonly trajectories: readonly string[];
}

/** What the ledger and the trajectories file say of a step: all that was sampled, also what trains nothing. */
export function recordOf(
  { groups, replaced, tasks }: CollectedStep,
  credits: readonly (readonly (Credit | null)[])[],
): StepRecord {
  const trained = groups.flatMap(({ members }, g) => members.map((scored, i) => ({ scored, credit: credits[g]?.[i] ?? null })));
  const beside = [...replaced.flatMap(({ members }) => members), ...groups.flatMap(({ greedy }) => greedy ?? [])];
  const members = [...trained, ...beside.map((scored) => ({ scored, credit: null }))];
  return {
    groups: [...groups, ...replaced],
    tasks: tasks.map(({ id }) => id),
    rollouts: members.map(({ scored }) => scored.trajectory.id),
    trajectories: members.map(({ scored, credit }) => encodeRollout(scored, credit)),
  };
}

type Stage = "rollout" | "evidence" | "update";

/** Seconds of each stage, in the order in which they end. */
export class StepClock {
  readonly seconds: Record<Stage, number> = { rollout: 0, evidence: 0, update: 0 };
  #last = performance.now();

  mark(stage: Stage): void {
    const now = performance.now();
    this.seconds[stage] = (now - this.#last) / 1000;
    this.#last = now;
  }
}
