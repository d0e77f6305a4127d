/**
 * The nouns of the system and the interfaces between its parts; types only, no code.
 * The flow is Task -> Trajectory -> Scored -> Credit -> Batch -> Gradients -> Weights. Everything is readonly:
 * a stage makes a new noun and annotates nothing that it was given.
 */
import type { Tensor } from "./compute/tensor/graph.ts";

/** A JSON value. Tool arguments and task data are JSON and nothing else. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Counts published weights. Branded: mixing it with another number would be silent and ruinous. */
export type PolicyVersion = number & { readonly __policyVersion: true };
/** A number that is neither NaN nor infinite; its one constructor is `finite()` in errors.ts. */
export type Finite = number & { readonly __finite: true };

// ---------------------------------------------------------------------------------------------- messages and tools

/** One tool call in its one internal form: arguments are a JSON object, never a JSON string. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
}

export interface Message {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** Assistant only. */
  readonly toolCalls?: readonly ToolCall[];
  /** Assistant only: text inside a reasoning block, without its tags. */
  readonly reasoning?: string;
  /** Tool only: which call this answers, and the tool's name. */
  readonly toolCallId?: string;
  readonly name?: string;
}

/** What the model is told of a tool: a JSON schema for its arguments. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
}

export interface ToolContext {
  readonly signal: AbortSignal;
  readonly task: Task;
  /** State of this episode alone; made anew for every rollout. */
  readonly state: Map<string, unknown>;
}

/** A tool that can be run. `run` gets arguments that satisfied the schema; a thrown error is told to the model. */
export interface Tool {
  readonly spec: ToolSpec;
  /** Returns the arguments as validated, or the reason why they are wrong. */
  readonly validate: (
    args: JsonObject,
  ) => { readonly ok: true; readonly args: JsonObject } | { readonly ok: false; readonly reason: string };
  readonly run: (args: JsonObject, context: ToolContext) => Promise<string> | string;
}

// ------------------------------------------------------------------------------------------------------------ task

export interface Task {
  readonly id: string;
  readonly prompt: readonly Message[];
  /** What the grader needs (gold answer, facts); the policy never sees it. */
  readonly data: JsonObject;
}

export type Split = "train" | "test";

/** An addressable list of tasks: `at(i)` is the same task at every call, on every machine. */
export interface TaskSource {
  readonly size: number;
  at(index: number): Task;
}

// ------------------------------------------------------------------------------------------------------ trajectory

/** Why sampling of one turn stopped. Code that switches over it does so exhaustively. */
export type FinishReason =
  | { readonly type: "eos"; readonly id: number }
  | { readonly type: "stopString"; readonly value: string }
  | { readonly type: "length" }
  | { readonly type: "timeout" }
  | { readonly type: "error"; readonly message: string };

/** Tokens that the policy was given: prompt, tool output, template glue. Never trained. */
export interface ContextSpan {
  readonly kind: "context";
  readonly ids: readonly number[];
}

/** Tokens that the policy sampled. Made by the sampler only; log-probs are at the sampling temperature, unfiltered. */
export interface SampledSpan {
  readonly kind: "sampled";
  readonly ids: readonly number[];
  /** [ids.length], natural log, of the distribution that was sampled from. */
  readonly logprobs: readonly number[];
  readonly finish: FinishReason;
  readonly version: PolicyVersion;
  readonly temperature: number;
}

export type Span = ContextSpan | SampledSpan;

/** One token sequence exactly as the sampler saw it. The training mask is derived from span kind, never stored. */
export interface Row {
  readonly spans: readonly Span[];
}

/** How an assistant turn's text was read. */
export type TurnParse = "answer" | "toolCalls" | "malformedToolCall" | "truncated";

export interface Turn {
  /** Where the sampled span of this turn is. */
  readonly row: number;
  readonly span: number;
  readonly message: Message;
  readonly parse: TurnParse;
  /** What the environment answered (tool results, next user message). */
  readonly replies: readonly Message[];
  /** Reward given to this turn by the environment, if any. */
  readonly reward?: Finite;
}

/** Why an episode ended. "done" is terminal; every other is truncation and is never treated as terminal. */
export type EpisodeEnd =
  | { readonly type: "done" }
  | { readonly type: "length" }
  | { readonly type: "turnLimit" }
  | { readonly type: "timeout" }
  | { readonly type: "error"; readonly boundary: string; readonly message: string };

export interface Trajectory {
  readonly id: string;
  readonly task: Task;
  /** Index of the sample inside its group. */
  readonly sample: number;
  readonly rows: readonly Row[];
  readonly turns: readonly Turn[];
  /** The whole conversation, for people and graders; a view, never encoded again. */
  readonly messages: readonly Message[];
  readonly end: EpisodeEnd;
  /** Measures of the episode (tool-use counts and the like); finite numbers. */
  readonly measures: Readonly<Record<string, number>>;
  readonly seconds: number;
}

// ---------------------------------------------------------------------------------------------------------- reward

/** A grader's answer. A grader that could not grade says so; that never becomes a score of 0. */
export type Verdict =
  | {
      readonly type: "scored";
      readonly score: Finite;
      /** Named parts of the score, each logged. */
      readonly components: Readonly<Record<string, Finite>>;
      readonly explanation: string;
    }
  | { readonly type: "unscorable"; readonly reason: string }
  | { readonly type: "infrastructure"; readonly reason: string };

/** Grades a finished episode. Plain errors that it throws are recorded as `infrastructure`. */
export type Reward = (episode: { readonly task: Task; readonly messages: readonly Message[]; readonly turns: readonly Turn[] }) =>
  | Verdict
  | Promise<Verdict>;

export interface Scored {
  readonly trajectory: Trajectory;
  readonly verdict: Verdict;
}

/** All samples of one task of one step. */
export interface Group {
  readonly task: Task;
  readonly members: readonly Scored[];
}

/** What people and machines can say about an answer; the preference and online learners speak it. */
export type Feedback =
  | { readonly type: "binary"; readonly good: boolean }
  | { readonly type: "pair"; readonly chosen: string; readonly rejected: string }
  | { readonly type: "rank"; readonly order: readonly string[] }
  | { readonly type: "score"; readonly value: 0 | 1 | 2 | 3 | 4 }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "verdict"; readonly verdict: Verdict };

// ----------------------------------------------------------------------------------------------------- environment

/** What an environment answers to one assistant turn. */
export interface EnvStep {
  readonly messages: readonly Message[];
  readonly done: boolean;
  readonly reward?: Finite;
}

/** One rollout's own instance of an environment: no state is shared with another. */
export interface Episode extends AsyncDisposable {
  /** `turn.replies` is empty; the answer of `step` fills it. */
  step(turn: Turn, signal: AbortSignal): Promise<EnvStep>;
  /** Called once, when the episode has ended. */
  measures(): Readonly<Record<string, number>>;
}

/** PLUG-IN 1. Environments speak messages; the rollout stage owns tokens. */
export interface Env {
  readonly name: string;
  readonly tools: readonly Tool[];
  tasks(split: Split): TaskSource;
  start(task: Task): Episode;
  readonly reward: Reward;
  /** The assistant turns of a right solution, for the preflight (must score 1) and for supervised warm-up. */
  reference?(task: Task): readonly Message[];
}

// ------------------------------------------------------------------------------------------------ credit and batch

/** Advantages of one trajectory: per row, one number for each sampled token in order. */
export interface Credit {
  readonly trajectory: Trajectory;
  readonly advantages: readonly Float32Array[];
}

/**
 * One training row: token ids and, for each trained token, its fields. `trained` lists positions t with 0 < t < ids.length
 * whose token is trained (its log-prob is predicted at t - 1). Every field has the length of `trained`.
 */
export interface TrainRow {
  readonly ids: Int32Array;
  readonly trained: Int32Array;
  readonly fields: Readonly<Record<string, Float32Array>>;
  /** Temperature at which log-probs are taken; the sampler's, so that both mean the same distribution. */
  readonly temperature: number;
}

/** Rows that the loss couples (a pair, a group) and that a micro-batch may not separate. Rows may share a prefix. */
export interface Unit {
  readonly rows: readonly TrainRow[];
}

export interface Batch {
  readonly units: readonly Unit[];
  /** Numbers taken over the whole step (divisors, coefficients), given to the loss as scalars: exact for every split. */
  readonly scalars: Readonly<Record<string, number>>;
}

/** What a loss sees of a micro-batch, as symbolic tensors; N trained tokens in R rows, ragged, no padding. */
export interface LossInputs {
  /** [N] log-prob of each trained token under the weights being trained. */
  readonly logprobs: Tensor;
  /** [N] entropy of the distribution each trained token was drawn from. Asking for it costs one more pass over the logits. */
  readonly entropy: Tensor;
  /** [N] int64 row index of each trained token. */
  readonly row: Tensor;
  /** Number of rows R as a symbolic dimension holder: a [R] tensor of ones. */
  readonly rows: Tensor;
  /** [N] named per-token field of the batch. */
  field(name: string): Tensor;
  /** [] named scalar of the batch. */
  scalar(name: string): Tensor;
}

export interface LossOutputs {
  /** [] to be minimised; a sum whose divisor came in as a scalar. */
  readonly loss: Tensor;
  /** [] each; summed over micro-batches, so each is a sum too, with its divisor from a scalar. */
  readonly metrics: Readonly<Record<string, Tensor>>;
}

/** A loss is a graph function handed to the engine as a value. `key` names it for the compiled-program cache. */
export interface Loss {
  readonly key: string;
  readonly build: (inputs: LossInputs) => LossOutputs;
}

// ----------------------------------------------------------------------------------------------------------- engine

export interface SampleRequest {
  readonly prompt: readonly number[];
  readonly count: number;
  readonly maxTokens: number;
  readonly temperature: number;
  /** Ids that end a turn; they are part of the sampled span. */
  readonly stopIds: readonly number[];
  readonly stopStrings?: readonly string[];
  /** Counter-based randomness: one key for each sample (from `rng(seed, step, prompt, sample)`); length `count`. */
  readonly keys: readonly RandomKey[];
  readonly deadline?: number;
  readonly signal?: AbortSignal;
  readonly adapter?: string;
}

/** 64 bits of a counter-based generator; the token index is the counter. */
export interface RandomKey {
  readonly hi: number;
  readonly lo: number;
}

export interface AdamWOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** Decoupled: w <- w - lr * decay * w, for matrices only (norms and biases are exempt). */
  readonly weightDecay: number;
  /** Global gradient norm above which gradients are scaled down; 0 turns clipping off. */
  readonly maxGradNorm: number;
}

export interface ForwardBackwardResult {
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
  /** Per unit and row, [trained.length] log-probs under the weights before the step. */
  readonly logprobs: readonly (readonly Float32Array[])[];
  readonly tokens: { readonly trained: number; readonly processed: number };
}

export type OptimResult =
  | { readonly type: "stepped"; readonly gradNorm: number; readonly clipped: boolean }
  /** A non-finite gradient: nothing was changed. `tensor` is the first such tensor. */
  | { readonly type: "skipped"; readonly tensor: string; readonly value: number };

/** What an engine can do; asked when a configuration is read, so that nothing is ignored later. */
export interface EngineInfo {
  readonly model: string;
  readonly family: string;
  readonly parameters: number;
  readonly trainable: number;
  readonly vocabulary: number;
  readonly contextLength: number;
  readonly adapters: readonly string[];
}

/** The engine: the same small interface embedded and remote. An algorithm never knows which one it runs on. */
export interface Engine extends AsyncDisposable {
  readonly info: EngineInfo;
  readonly version: PolicyVersion;
  sample(request: SampleRequest): Promise<readonly SampledSpan[]>;
  /** Log-probs of the trained positions of given rows. `adapter: "reference"` is the policy as it was opened. */
  logprobs(
    rows: readonly TrainRow[],
    options?: { readonly adapter?: string; readonly signal?: AbortSignal },
  ): Promise<readonly Float32Array[]>;
  /** Adds to the held gradients; an abort drops them all and leaves the weights as they were. */
  forwardBackward(batch: Batch, loss: Loss, options?: { readonly signal?: AbortSignal }): Promise<ForwardBackwardResult>;
  optimStep(options: AdamWOptions): Promise<OptimResult>;
  /** Makes the trained weights the sampled ones; proves by a probe that the served policy is the trained one. */
  publish(): Promise<PolicyVersion>;
  /** Trainable weights, optimiser moments and step, bitwise. */
  save(folder: string): Promise<void>;
  load(folder: string): Promise<void>;
}

// -------------------------------------------------------------------------------------------------------- algorithm

/** What the summed loss of a step is divided by: all its tokens, each completion's own tokens and then completions, or a constant. */
export type Reduction = "token-mean" | "sequence-mean" | "constant";

/** PLUG-IN 2. Which advantage, which loss, vetted defaults; one short file each. */
export interface Algorithm {
  readonly name: string;
  readonly paper: string;
  /** Samples per task; group baselines need at least 2. */
  readonly groupSize: number;
  /** Resolved settings, for the plan and its hash. */
  readonly settings: JsonObject;
  /** True if the loss reads the field "reference": log-probs under the policy as it was opened. */
  readonly needsReference: boolean;
  readonly reduction: Reduction;
  /** Completions cut by a limit are left out of the loss and of its divisor. */
  readonly maskTruncated: boolean;
  /** Optimiser steps on one batch. */
  readonly epochsPerBatch: number;
  /** Per group and member; null for a member that was not scored, which then trains nothing and enters no mean. */
  credit(groups: readonly Group[]): readonly (readonly (Credit | null)[])[];
  readonly loss: Loss;
}
