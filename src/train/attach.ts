/** The models beside the policy, all adapters of its base: what an algorithm brings (critic, line search) and what was handed in. */
import { ConfigError, expected } from "../errors.ts";
import { trustAdapter } from "../loop/update/trust-region.ts";
import type { Policy } from "../loop/rollout/episode.ts";
import type { Algorithm, Engine, OfflineAlgorithm, Reward } from "../types.ts";
import type { TrainConfig } from "./config.ts";
import { criticAdapter } from "./critic.ts";
import type { TurnScorer } from "./evidence.ts";

export interface AttachedModels {
  /** Grades what is trained on; the environment's own reward then only evaluates. */
  readonly reward?: Reward;
  readonly turnScorer?: TurnScorer;
  /** Plays the episodes, in training and in evaluation. */
  readonly play?: Policy["play"];
  /** The adapter that a critic starts as a copy of (a reward model's); default: a fresh one. */
  readonly criticFrom?: string;
}

/** Refuses what an agent that plays the episodes by itself would ignore. */
export function checkPlayed(config: TrainConfig, { kind, name }: Pick<Algorithm | OfflineAlgorithm, "kind" | "name">): void {
  const { pace, compaction } = config.rollout;
  const refuse = (...parts: Parameters<typeof expected>): never => {
    throw new ConfigError(expected(...parts));
  };
  if (kind === "offline") refuse("algo.name", "an algorithm that samples, for the agent to play", name);
  if (pace !== "free") refuse("rollout.pace", '"free" with an agent, which takes its own time', JSON.stringify(pace));
  if (compaction !== "none") refuse("rollout.compaction", '"none" with an agent, which keeps its own context', JSON.stringify(compaction));
}

/** Adds the adapters that an algorithm trains, before a checkpoint is read into them. */
export function attachModels(
  engine: Engine,
  { config: { model, seed }, algorithm, models }: {
    readonly config: TrainConfig;
    readonly algorithm: Algorithm;
    readonly models: AttachedModels;
  },
): void {
  if (model.adapter !== "lora") return;
  const { rank, alpha } = model;
  const shape = { rank, alpha, trained: true, seed };
  if (algorithm.critic !== undefined) engine.addAdapter(criticAdapter, { ...shape, from: models.criticFrom ?? "base", scalarHead: true });
  if (algorithm.trustRegion !== undefined) engine.addAdapter(trustAdapter, { ...shape, from: "policy", scalarHead: false });
}
