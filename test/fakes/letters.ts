/** A toy that a random model can learn: the reward is the share of an answer's characters that are a to m. */
import { scored } from "../../src/errors.ts";
import { defineEnv } from "../../src/loop/rollout/tool-env.ts";
import { tasksFrom } from "../../src/loop/prompt/dataset.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import type { Env } from "../../src/types.ts";

/** Twenty tasks; those that are `flat` pay the same for every answer. */
export function letters(flat: readonly string[] = []): Env {
  const train = tasksFrom(Array.from({ length: 20 }, (_, i) => ({ id: `t${i}`, question: `${i}?` })));
  const test = tasksFrom(Array.from({ length: 4 }, (_, i) => ({ id: `h${i}`, question: `${i}!` })));
  return defineEnv({
    name: "letters",
    tasks: (split) => (split === "train" ? train : test),
    maxTurns: 1,
    reward: ({ task, messages }) => {
      const text = messages.at(-1)!.content;
      if (flat.includes(task.id)) return scored(0, "the same for all");
      const share = text === "" ? 0 : [...text].filter((letter) => letter >= "a" && letter <= "m").length / [...text].length;
      return scored(share, `${share} of the letters`);
    },
  });
}

type Changes = { readonly [Section in "algo" | "rollout" | "optim" | "train" | "model"]?: object };

/** A run of the toy on a tiny model folder: full fine-tuning, 4 tasks of 8 samples a step, answers of 4 tokens. */
export function lettersConfig(path: string, { algo, rollout, optim, train, model }: Changes = {}): TrainConfigInput {
  return {
    name: "toy",
    model: { path, adapter: "full", ...model },
    algo: { name: "grpo", groupSize: 8, ...algo },
    rollout: { tasksPerStep: 4, maxTokens: 4, maxTurns: 1, ...rollout },
    optim: { learningRate: 1e-2, ...optim },
    train: { steps: 10, evalEvery: 0, checkpointEvery: 5, ...train },
  };
}
