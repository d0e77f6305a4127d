/** What the quickstart trains: the shipped model, with which settings, under which name. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TrainConfigInput } from "../../../train/config.ts";

interface QuickstartSettings {
  readonly name: string;
  readonly path: string;
  readonly steps: number;
  readonly seed: number;
}

/** The settings of the quickstart: full fine-tuning of the small model, 16 questions of 8 samples a step. */
export function quickstartConfig({ name, path, steps, seed }: QuickstartSettings): TrainConfigInput {
  return {
    name,
    seed,
    model: { path, adapter: "full" },
    env: { name: "desk" },
    algo: { name: "grpo", groupSize: 8, clipHigh: 0.28 },
    rollout: { tasksPerStep: 16, maxTokens: 64, maxTurns: 4, concurrency: 128 },
    optim: { learningRate: 2e-4, warmupSteps: Math.min(2, steps - 1), schedule: "constant" },
    train: { steps, evalEvery: steps, evalTasks: 300, checkpointEvery: Math.min(20, steps), microBatchTokens: 4096 },
  };
}

/** The first of quickstart, quickstart-2, quickstart-3, … that is not taken. */
export function freeName(runsFolder: string): string {
  for (let i = 1; ; i++) {
    const name = i === 1 ? "quickstart" : `quickstart-${i}`;
    if (!existsSync(join(runsFolder, name))) return name;
  }
}
