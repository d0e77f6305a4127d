/** The models beside the policy, all adapters of its base: what an algorithm brings (critic, line search) and what was handed in. */
import { trustAdapter } from "../loop/update/trust-region.ts";
import type { Policy } from "../loop/rollout/episode.ts";
import type { Algorithm, Engine, Reward } from "../types.ts";
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
