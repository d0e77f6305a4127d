/** What an offline run trains: the policy, a reward model, or several reward models on resamples of the data. */
import { integer, rng } from "../random.ts";
import { tasksOfStep } from "../loop/prompt/order.ts";
import type { Engine, OfflineAlgorithm, TaskSource } from "../types.ts";
import type { TrainConfig } from "./config.ts";

export interface Learner {
  readonly adapter: string;
  /** Indices of the training examples of a step. */
  indices(step: number): number[];
}

interface LearnerOptions {
  readonly config: TrainConfig;
  readonly algorithm: Pick<OfflineAlgorithm, "trains" | "settings">;
  /** Training examples. */
  readonly size: number;
}

/**
 * The policy and a single model see each example once a pass. Each member of an ensemble has an order of its own over a bootstrap
 * resample of its own (as many examples, drawn with replacement).
 */
export function learnersOf({ config, algorithm, size }: LearnerOptions): Learner[] {
  const { seed, rollout } = config;
  const names = adapterNames(algorithm);
  return names.map((adapter, member) => {
    const resampled = names.length > 1;
    const order = resampled ? rng(seed, "ensemble", member).lo : seed;
    const drawn = rng(seed, "bootstrap", member);
    const at = (index: number): number => (resampled ? integer(drawn, size, index) : index);
    const places: TaskSource = { size, at: (index) => ({ id: String(at(index)), prompt: [], data: {} }) };
    const indices = (step: number): number[] =>
      tasksOfStep(places, { seed: order, step, count: rollout.tasksPerStep }).map(({ id }) => Number(id));
    return { adapter, indices };
  });
}

/** "policy"; "reward"; or "reward-1", "reward-2", … of an ensemble. */
export function adapterNames({ trains, settings }: Pick<OfflineAlgorithm, "trains" | "settings">): string[] {
  if (trains === "policy") return ["policy"];
  const count = typeof settings["ensemble"] === "number" ? settings["ensemble"] : 1;
  return count === 1 ? ["reward"] : Array.from({ length: count }, (_, i) => `reward-${i + 1}`);
}

/** Adds the reward adapters that an algorithm trains, each with a start of its own. */
export function addLearners(engine: Engine, algorithm: Pick<OfflineAlgorithm, "trains" | "settings">, config: TrainConfig): void {
  if (algorithm.trains === "policy" || config.model.adapter !== "lora") return;
  const { rank, alpha } = config.model;
  adapterNames(algorithm).forEach((name, member) => {
    const { lo: seed } = rng(config.seed, "reward", member);
    engine.addAdapter(name, { from: "base", rank, alpha, scalarHead: true, trained: true, seed });
  });
}
