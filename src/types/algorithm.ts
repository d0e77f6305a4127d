/** PLUG-IN 2: algorithms, and the parts that they may bring. */
import type { Group, JsonObject } from "./episode.ts";
import type { Batch, Credit, CreditContext, Engine, Loss } from "./training.ts";

// -------------------------------------------------------------------------------------------------------- algorithm

/** What the summed loss of a step is divided by: all its tokens, each completion's own tokens and then completions, or a constant. */
export type Reduction = "token-mean" | "sequence-mean" | "constant";

/** Trains a critic (the adapter "critic") beside the policy. `loss` reads `values` and the fields "return", "value" and "weight". */
export interface Critic {
  readonly loss: Loss;
  readonly learningRate: number;
  /** First steps in which the critic alone is trained. */
  readonly warmupSteps: number;
  readonly epochsPerBatch: number;
}

/** Moves coefficients (an adaptive KL weight) from step to step; kept in checkpoints. Losses read them as scalars. */
export interface Controller {
  readonly initial: Readonly<Record<string, number>>;
  next(
    coefficients: Readonly<Record<string, number>>,
    step: { readonly metrics: Readonly<Record<string, number>>; readonly completions: number },
  ): Readonly<Record<string, number>>;
}

/** TRPO's step in place of AdamW's: conjugate gradients on the Fisher matrix, then a line search within `maxKl`. */
export interface TrustRegion {
  readonly maxKl: number;
  readonly damping: number;
  readonly iterations: number;
  readonly backtracks: number;
}

/** By what is trained: all weights, or a low-rank adapter. */
export interface LearningRates {
  readonly full: number;
  readonly lora: number;
}

/** PLUG-IN 2. Which advantage, which loss, vetted defaults; one short file each. Members with `?` are off if left out. */
export interface Algorithm {
  readonly kind: "sampled";
  readonly name: string;
  readonly paper: string;
  /** Samples per task; group baselines need at least 2. */
  readonly groupSize: number;
  /** Resolved settings, for the plan and its hash. */
  readonly settings: JsonObject;
  /** Step sizes of AdamW where a configuration names none. */
  readonly learningRate: LearningRates;
  /**
   * Parts of `Evidence` that credit or loss read, and greedy answers. "reference" is also a field of the batch; with "trainer" the
   * field "old" has the trainer's log-probs and "sampler" the sampler's.
   */
  readonly needs?: readonly ("reference" | "trainer" | "turnScores" | "greedy")[];
  readonly reduction: Reduction;
  /** Completions cut by a limit are left out of the loss and of its divisor. */
  readonly maskTruncated: boolean;
  /** Tokens whose advantage is 0 still have a gradient (KL, entropy), so their rows are not skipped. */
  readonly keepZero?: boolean;
  /** Optimiser steps on one batch. */
  readonly epochsPerBatch: number;
  /** Per group and member; null for a member that was not scored, which then trains nothing and enters no mean. */
  credit(groups: readonly Group[], context: CreditContext): readonly (readonly (Credit | null)[])[];
  /** Reads "advantage", "old" (log-probs when the batch was made), "weight" and what `needs` names. */
  readonly loss: Loss;
  readonly critic?: Critic;
  readonly controller?: Controller;
  readonly trustRegion?: TrustRegion;
  /** Rounds in which groups without signal may be replaced by groups of other tasks (DAPO's dynamic sampling). */
  readonly resampleRounds?: number;
}

/** Learns from examples that are given, not sampled. Which field of a batch row means what is said where `examples` are encoded. */
export interface OfflineAlgorithm {
  readonly kind: "offline";
  readonly name: string;
  readonly paper: string;
  readonly settings: JsonObject;
  readonly learningRate: LearningRates;
  /** dialogues: assistant turns; pairs: chosen and rejected; labels: good or bad answers; steps: labelled steps of a solution. */
  readonly examples: "dialogues" | "pairs" | "labels" | "steps";
  /** The adapter that is trained: the policy, or a model with a scalar head. */
  readonly trains: "policy" | "reward";
  readonly reduction: Exclude<Reduction, "constant">;
  readonly needsReference: boolean;
  readonly loss: Loss;
  /** Numbers over the whole batch that need passes of their own (KTO's KL baseline). */
  scalars?(batch: Batch, engine: Engine): Promise<Readonly<Record<string, number>>>;
}
