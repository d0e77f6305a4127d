/** A first program: tasks of one's own, a reward, and the model that comes with the package. Two cores need about a minute. */
import { defineEnv, desk, number, shippedModel, tasksFrom, train, type Env } from "../src/index.ts";

/** Products of two numbers; those for training and those for measuring differ. */
function products(rest: 0 | 1) {
  const numbers = Array.from({ length: 87 }, (_, i) => [12 + ((7 * i) % 87), 12 + ((14 * i + rest) % 87)]);
  const rows = numbers.map(([a = 0, b = 0]) => ({ question: `What is ${a} times ${b}?`, answer: a * b }));
  return tasksFrom(rows, { system: "You help in an office. End with: The answer is X." });
}

export const env: Env = defineEnv({
  name: "products",
  tasks: (split) => products(split === "train" ? 0 : 1),
  tools: desk().tools, // those that this small model was made with: a calculator and a look-up
  reward: number({ after: "answer is" }),
  maxTurns: 4,
});

/** GRPO: 8 answers to each of 16 questions a step, and held-out questions before and after. */
export const first = (steps: number, runsFolder = "runs") =>
  train(
    {
      name: "first",
      model: { path: shippedModel(), adapter: "full" },
      algo: { name: "grpo" },
      rollout: { tasksPerStep: 16, maxTokens: 64 },
      optim: { learningRate: 2e-4 },
      train: { steps, evalEvery: steps },
    },
    { env, runsFolder },
  );
