/** Sizes of every stage: for the shipped model (a million parameters), and for one a hundred times larger. */
import type { TrainConfigInput } from "../../src/train/config.ts";

type Part = Partial<Pick<TrainConfigInput, "rollout" | "optim" | "train">>;

export interface Setup {
  readonly maxTokens: number;
  readonly dialogues: number;
  /** Prompts whose two answers are compared; some of them are held out to measure the reward model. */
  readonly prompts: number;
  readonly heldoutPairs: number;
  readonly sft: Part;
  readonly reward: Part;
  readonly policy: Part;
  readonly dpo: Part;
  readonly criticLearningRate: number;
  /** Weight of the KL in the reward, in the run that has it. */
  readonly kl: number;
}

/** Adapters of all stages. */
export const adapter = { rank: 16, alpha: 32 };

export const annotator = { noise: 0.15, perWord: 0.02 };

export const small: Setup = {
  maxTokens: 48,
  dialogues: 4_000,
  prompts: 1_200,
  heldoutPairs: 200,
  sft: { rollout: { tasksPerStep: 48 }, optim: { learningRate: 5e-3, schedule: "cosine", warmupSteps: 5 }, train: { steps: 50 } },
  reward: { rollout: { tasksPerStep: 32 }, optim: { learningRate: 3e-3, schedule: "cosine", warmupSteps: 4 }, train: { steps: 40 } },
  policy: {
    rollout: { tasksPerStep: 32, concurrency: 128 },
    optim: { learningRate: 1e-3, warmupSteps: 2 },
    train: { steps: 40, evalEvery: 4, evalTasks: 128, checkpointEvery: 8 },
  },
  dpo: {
    rollout: { tasksPerStep: 24, concurrency: 128 },
    optim: { learningRate: 1e-3, warmupSteps: 2 },
    train: { steps: 40, evalEvery: 8, evalTasks: 128, checkpointEvery: 40 },
  },
  criticLearningRate: 2e-3,
  kl: 0.1,
};

export const large: Setup = {
  maxTokens: 64,
  dialogues: 600,
  prompts: 400,
  heldoutPairs: 100,
  sft: { rollout: { tasksPerStep: 8 }, optim: { learningRate: 5e-4, schedule: "linear", warmupSteps: 2 }, train: { steps: 30 } },
  reward: { rollout: { tasksPerStep: 8 }, optim: { learningRate: 3e-4, schedule: "linear", warmupSteps: 2 }, train: { steps: 30 } },
  policy: {
    rollout: { tasksPerStep: 12, concurrency: 64 },
    optim: { learningRate: 3e-4, warmupSteps: 2 },
    train: { steps: 40, evalEvery: 8, evalTasks: 32 },
  },
  dpo: {
    rollout: { tasksPerStep: 8, concurrency: 64 },
    optim: { learningRate: 2e-4, warmupSteps: 2 },
    train: { steps: 30, evalEvery: 10, evalTasks: 32 },
  },
  criticLearningRate: 3e-4,
  kl: 0.1,
};
