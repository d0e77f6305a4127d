/** Credit -> Batch -> Gradients -> Weights: what is trained on, and the engine that does it. */
import type { Tensor } from "../compute/tensor/graph.ts";
import type { PolicyVersion, SampledSpan, Trajectory } from "./episode.ts";

// ------------------------------------------------------------------------------------------------ credit and batch

/** Per row of a trajectory, one number for each sampled token in order. */
export type TokenValues = readonly Float32Array[];

/** What models say of one trajectory, gathered before credit is given; each part is there if the algorithm needs it. */
export interface Evidence {
  /** Log-probs under the policy as it was opened. */
  readonly reference?: TokenValues;
  /** Log-probs under the weights that are about to be trained; the sampler's differ where it is older or quantised. */
  readonly trainer?: TokenValues;
  /** The critic's value of the state before each sampled token. */
  readonly values?: TokenValues;
  /** The critic's value of the state after the last token: what a truncated episode is still worth. */
  readonly valueAfter?: number;
  /** A process reward model's score of each turn, in order. */
  readonly turnScores?: readonly number[];
}

export interface Credit {
  readonly trajectory: Trajectory;
  readonly advantages: TokenValues;
  /** What the critic is trained towards, and what it said when the credit was given. */
  readonly returns?: TokenValues;
  readonly values?: TokenValues;
}

export interface CreditContext {
  evidence(trajectory: Trajectory): Evidence;
  /** Most tokens of one turn and most turns of an episode. */
  readonly limits: { readonly maxTokens: number; readonly maxTurns: number };
  /** The controller's coefficients of this step. */
  readonly coefficients: Readonly<Record<string, number>>;
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
  /** [N] the scalar head's output for the state before each trained token. The trained adapter must have such a head. */
  readonly values: Tensor;
  /** [N] int64 row index of each trained token. */
  readonly row: Tensor;
  /** Number of rows R as a symbolic dimension holder: a [R] tensor of ones. */
  readonly rows: Tensor;
  /** [N] int64 unit index of each trained token, and [U] ones: what a loss over pairs or groups sums by. */
  readonly unit: Tensor;
  readonly units: Tensor;
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
  /** Told of each token as it is drawn; `sample` is its index below `count`. */
  readonly onToken?: (token: DrawnToken) => void;
  /** How many of the likeliest alternatives each drawn token is told with; default none. */
  readonly topLogprobs?: number;
  /** Makes what narrows the draws of one sample. Log-probs stay those of the whole distribution. */
  readonly constraint?: () => TokenConstraint;
}

export interface TokenLogprob {
  readonly id: number;
  readonly logprob: number;
}

export interface DrawnToken extends TokenLogprob {
  readonly sample: number;
  /** The likeliest tokens, best first; of the whole distribution, whatever a constraint allows. */
  readonly top: readonly TokenLogprob[];
}

/** Says which ids may come next in one sample; it is told every id that was drawn. */
export interface TokenConstraint {
  /** Writes 1 at each id that may come next into `mask` ([vocabulary], zeros), of which at least one; `left` tokens may still be drawn. */
  allow(mask: Uint8Array, left: number): void;
  accept(id: number): void;
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
  /** Per unit and row, [trained.length] log-probs under the weights before the step; empty where the loss reads none. */
  readonly logprobs: readonly (readonly Float32Array[])[];
  readonly tokens: { readonly trained: number; readonly processed: number };
}

export type OptimResult =
  | { readonly type: "stepped"; readonly gradNorm: number; readonly clipped: boolean }
  /** A non-finite gradient or loss: nothing was changed. `tensor` is the first such tensor, or "loss". */
  | { readonly type: "skipped"; readonly tensor: string; readonly value: number };

/**
 * An adapter beside the policy's, on the same base: a critic, a reward model, a process reward model. It starts as a copy of
 * `from` (its LoRA matrices; "base" is a fresh adapter) and can carry a linear head from the last hidden state to one number.
 */
export interface AdapterOptions {
  readonly from: string;
  readonly rank: number;
  readonly alpha: number;
  readonly scalarHead: boolean;
  /** A frozen adapter has no gradients and no moments. */
  readonly trained: boolean;
  readonly seed: number;
}

/** Which adapter's weights; default "policy". */
export interface OnAdapter {
  readonly adapter?: string;
  readonly signal?: AbortSignal;
}

/** Moves weights along a direction, for second-order updates. Vectors are flat, in the order of the adapter's parameters. */
export interface Directions {
  /** A copy of the held gradient, which is then cleared. */
  takeGradient(): Float32Array;
  /** weights += scale * direction; counts as an update. */
  move(direction: Float32Array, scale: number): void;
}

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
  logprobs(rows: readonly TrainRow[], options?: OnAdapter): Promise<readonly Float32Array[]>;
  /**
   * The scalar head's output for the state before each trained position; position ids.length, which no token holds, is allowed
   * here and stands for the state after the whole row.
   */
  values(rows: readonly TrainRow[], options: OnAdapter & { readonly adapter: string }): Promise<readonly Float32Array[]>;
  /** Adds to the adapter's held gradients; an abort drops them all and leaves the weights as they were. */
  forwardBackward(batch: Batch, loss: Loss, options?: OnAdapter): Promise<ForwardBackwardResult>;
  optimStep(options: AdamWOptions & { readonly adapter?: string }): Promise<OptimResult>;
  /** Adds an adapter to a base that is not itself trained. */
  addAdapter(name: string, options: AdapterOptions): void;
  /** to <- keep * to + (1 - keep) * from: 0 copies (a reset of the reference), 0.99 is a moving average. */
  blendAdapter(from: string, to: string, keep: number): void;
  /** One adapter with its head as files that `loadAdapter` and PEFT read. */
  saveAdapter(name: string, folder: string): Promise<void>;
  loadAdapter(name: string, folder: string): Promise<void>;
  directions(adapter?: string): Directions;
  /** Makes the trained weights the sampled ones; proves by a probe that the served policy is the trained one. */
  publish(): Promise<PolicyVersion>;
  /** Trainable weights, optimiser moments and step, bitwise. */
  save(folder: string): Promise<void>;
  load(folder: string): Promise<void>;
}
