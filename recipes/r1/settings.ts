/** What the stages are given: for the shipped model, and for a larger one, which knows more and is slower. */
import type { ChainOptions } from "./chain.ts";

interface StageSettings {
  readonly steps: number;
  /** Dialogues or prompts of one step. */
  readonly perStep: number;
  readonly learningRate: number;
}

export interface Settings {
  readonly model: string;
  readonly adapter: { readonly adapter: "full" } | { readonly adapter: "lora"; readonly rank: number; readonly alpha: number };
  readonly terms: ChainOptions["terms"];
  readonly maxTokens: number;
  readonly concurrency: number;
  readonly groupSize: number;
  readonly evalTasks: number;
  /** Worked dialogues of the cold start. */
  readonly worked: number;
  readonly cold: StageSettings;
  readonly grpo: StageSettings;
  /** Tasks that are sampled, samples of each, and most answers that are kept of one task. */
  readonly sampled: { readonly tasks: number; readonly samples: number; readonly keep: number };
  readonly rejection: StageSettings;
}

export const shipped: Settings = {
  model: "models/desk-1m",
  adapter: { adapter: "full" },
  terms: [4, 6],
  maxTokens: 72,
  concurrency: 128,
  groupSize: 8,
  evalTasks: 300,
  worked: 2_000,
  cold: { steps: 320, perStep: 24, learningRate: 2e-3 },
  grpo: { steps: 150, perStep: 32, learningRate: 1e-4 },
  sampled: { tasks: 1_000, samples: 4, keep: 2 },
  rejection: { steps: 350, perStep: 24, learningRate: 2e-3 },
};

/** For a model of some hundred million parameters, of which a LoRA adapter is trained. */
export const larger = (model: string): Settings => ({
  ...shipped,
  model,
  adapter: { adapter: "lora", rank: 16, alpha: 32 },
  maxTokens: 120,
  concurrency: 64,
  groupSize: 6,
  evalTasks: 60,
  worked: 100,
  cold: { steps: 10, perStep: 8, learningRate: 3e-4 },
  grpo: { steps: 8, perStep: 5, learningRate: 2e-4 },
  sampled: { tasks: 60, samples: 2, keep: 1 },
  rejection: { steps: 10, perStep: 8, learningRate: 3e-4 },
});
