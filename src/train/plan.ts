/** The plan: what a configuration means in completions, tokens, passes over the data and memory, said before any model loads. */
import { openAlgorithm } from "../algo/registry.ts";
import { ConfigError, amount, expected } from "../errors.ts";
import type { Algorithm, JsonObject, OfflineAlgorithm } from "../types.ts";
import { type TrainConfig, planHash } from "./config.ts";

/** Sizes that are known from a model's config file and from the environment's task lists. */
export interface PlanFacts {
  readonly trainTasks: number;
  readonly testTasks: number;
  readonly contextLength: number;
  readonly parameters: number;
  /** Numbers that the optimiser changes. */
  readonly trainable: number;
  readonly layers: number;
  readonly hidden: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  /** Key and value numbers of one token and layer: 2 x key-value heads x head size. */
  readonly cachePerTokenLayer: number;
}

export interface Plan {
  readonly hash: string;
  readonly completionsPerStep: number;
  /** Most sampled tokens of a step, if every completion ran to its limits. */
  readonly tokensPerStep: number;
  readonly tokensTotal: number;
  readonly steps: number;
  /** Passes over the train split. */
  readonly epochs: number;
  readonly evalTasks: number;
  readonly memoryBytes: {
    readonly weights: number;
    readonly optimiser: number;
    readonly activations: number;
    readonly cache: number;
    readonly total: number;
  };
}

/** Throws a ConfigError if the configuration and the facts do not fit. */
export function plan(
  config: TrainConfig,
  facts: PlanFacts,
  algorithm: Algorithm | OfflineAlgorithm = openAlgorithm(config.algo),
): Plan {
  const { rollout, train } = config;
  if (facts.trainTasks < 1)
    throw new ConfigError(expected("env: train split", "at least 1 task", String(facts.trainTasks), "check the environment's options"));
  checkMaxTokens(rollout.maxTokens, facts.contextLength);
  const completionsPerStep = rollout.tasksPerStep * (algorithm.kind === "sampled" ? algorithm.groupSize : 1);
  const tokensPerStep = completionsPerStep * Math.min(rollout.maxTokens * rollout.maxTurns, facts.contextLength);
  return {
    hash: planHash(config),
    completionsPerStep,
    tokensPerStep,
    tokensTotal: tokensPerStep * train.steps,
    steps: train.steps,
    epochs: (rollout.tasksPerStep * train.steps) / facts.trainTasks,
    evalTasks: train.evalEvery === 0 ? 0 : Math.min(train.evalTasks, facts.testTasks),
    memoryBytes: memory(config, { ...facts, ...besides(algorithm, facts) }, completionsPerStep),
  };
}

/** A turn that could fill the whole context leaves no prompt any room. */
export function checkMaxTokens(maxTokens: number, contextLength: number): void {
  if (maxTokens < contextLength) return;
  throw new ConfigError(expected("rollout.maxTokens", `less than the model's context of ${contextLength}`, String(maxTokens), "lower it"));
}

interface Besides {
  /** Numbers of adapters beside the policy, and bytes of their gradients and moments. */
  readonly adapters: number;
  readonly optimised: number;
}

/** A critic is an adapter of the policy's size that is trained like it; a line search has a copy with a gradient alone. */
function besides(algorithm: Algorithm | OfflineAlgorithm, { trainable }: PlanFacts): Besides {
  const { critic, trustRegion } = algorithm.kind === "sampled" ? algorithm : {};
  const [valued, searched] = [critic === undefined ? 0 : trainable, trustRegion === undefined ? 0 : trainable];
  return { adapters: valued + searched, optimised: 12 * valued + 4 * searched };
}

/**
 * float32 everywhere. Optimiser: gradient and two moments. Activations of a micro-batch: what the backward pass of a block needs
 * (about 12 x hidden + 6 x intermediate numbers a token and layer) and three arrays of logits. Cache: every concurrent episode
 * at its limit. An estimate for planning, not a bound.
 */
function memory(config: TrainConfig, facts: PlanFacts & Besides, completions: number): Plan["memoryBytes"] {
  const { rollout, train } = config;
  const tokens = Math.min(train.microBatchTokens, facts.contextLength * completions);
  const weights = 4 * (facts.parameters + facts.adapters);
  const optimiser = 12 * facts.trainable + facts.optimised;
  const activations = 4 * tokens * (facts.layers * (12 * facts.hidden + 6 * facts.intermediate) + 3 * facts.vocabulary);
  const row = Math.min(rollout.maxTokens * rollout.maxTurns, facts.contextLength);
  const cache = 4 * Math.min(rollout.concurrency, completions) * row * facts.layers * facts.cachePerTokenLayer;
  // Sampling and training take turns: the larger of the two counts.
  return { weights, optimiser, activations, cache, total: weights + optimiser + Math.max(activations, cache) };
}

/** The plan as a few lines for people. */
export function planLines(config: TrainConfig, made: Plan): string[] {
  const { rollout, train } = config;
  const samples = made.completionsPerStep / rollout.tasksPerStep;
  const group = samples > 1 ? ` x ${samples} samples` : "";
  const every = train.evalEvery === 1 ? "after every step" : `every ${train.evalEvery} steps`;
  const evaluation = made.evalTasks === 0 ? "none" : `${amount(made.evalTasks, "held-out task")} ${every}`;
  const { weights, optimiser, activations, cache, total } = made.memoryBytes;
  const parts = Object.entries({ weights, optimiser, activations, cache }).map(([name, bytes]) => `${name} ${gigabytes(bytes)}`);
  const completions = `${amount(rollout.tasksPerStep, "task")}${group} = ${amount(made.completionsPerStep, "completion")}`;
  const passes = `${made.epochs.toFixed(2)} passes over the train split`;
  return [
    `each step   ${completions}, at most ${count(made.tokensPerStep)} sampled tokens`,
    `the run     ${amount(made.steps, "step")} = ${passes}, at most ${count(made.tokensTotal)} tokens`,
    `evaluation  ${evaluation}`,
    `memory      about ${gigabytes(total)} (${parts.join(", ")})`,
    `hash        ${made.hash.slice(0, 16)}`,
  ];
}

export function planJson(made: Plan): JsonObject {
  return { ...made, memoryBytes: { ...made.memoryBytes } };
}

function count(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} billion`;
  return value >= 1e6 ? `${(value / 1e6).toFixed(1)} million` : value.toLocaleString("en-US");
}

function gigabytes(bytes: number): string {
  return bytes < 1e8 ? `${(bytes / 1e6).toFixed(0)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
