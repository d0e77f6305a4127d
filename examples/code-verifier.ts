/** A dataset of one's own: questions with tests. The reward runs each answer in the sandbox against them. */
import { codeReward } from "../src/loop/reward/verifiers/code.ts";
import { dataset, defineEnv, train, type Env, type Message, type Task } from "../src/index.ts";

const fence = "```";

/** `path` is JSONL: question, tests (a list of assertions), and the solution that must score 1. */
export function programming(path: string): Env {
  return defineEnv({
    name: "programming",
    tasks: () => dataset(path, { needs: ["tests", "solution"], system: "Answer with one Python code block." }),
    reward: codeReward({ language: "python", grade: "fraction", limits: { wallSeconds: 5 } }),
    reference: ({ data }: Task): readonly Message[] => [
      { role: "assistant", content: `${fence}python\n${data["solution"] as string}\n${fence}` },
    ],
    maxTurns: 1,
  });
}

/** GRPO on the dataset. The tests see the answer; the answer never sees the tests. */
export async function trainProgrammer({
  model,
  data,
  runsFolder,
  steps,
}: {
  model: string;
  data: string;
  runsFolder: string;
  steps: number;
}) {
  return train(
    {
      name: "programmer",
      model: { path: model, adapter: "full" },
      algo: { name: "grpo", groupSize: 4 },
      rollout: { tasksPerStep: 2, maxTokens: 64, maxTurns: 1 },
      train: { steps, evalEvery: steps, evalTasks: 2, checkpointEvery: steps },
    },
    { env: programming(data), runsFolder },
  );
}
