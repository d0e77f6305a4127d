/** Small files of preferences that a random model can learn: of two answers the one with a dog is right, whatever the question. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TrainConfigInput } from "../../src/train/config.ts";
import type { JsonObject } from "../../src/types.ts";

const questions = ["2+2", "1+2", "hi", "bye", "rain?", "sun?", "who?", "why?", "where?", "12 + 30", "Weather", "What is it?"];
const animals = [["the dog", "the fox"], ["a dog", "a fox sleeps"], ["dog jumps", "fox"]] as const;

export const pairs = questions.map((prompt, i) => {
  const [chosen, rejected] = animals[i % animals.length]!;
  return { prompt, chosen, rejected };
});

export const solutions = questions.map((prompt, i) => ({
  prompt,
  steps: i % 2 === 0 ? ["a dog jumps", "the fox", "the dog"] : ["the fox sleeps", "a dog", "fox"],
  labels: i % 2 === 0 ? [1, 0, 1] : [0, 1, 0],
}));

export function writeRows(folder: string, rows: readonly (JsonObject | object)[], name = "data.jsonl"): string {
  const path = join(folder, name);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return path;
}

interface Changes {
  readonly name?: string;
  readonly model?: object;
  readonly rollout?: object;
  readonly optim?: object;
  readonly train?: object;
}

/** A run on a tiny model folder: an adapter, all pairs but the last four in one step, those four held out. */
export function preferenceConfig(
  { model: path, data, algo }: { readonly model: string; readonly data: string; readonly algo: JsonObject & { readonly name: string } },
  { name = algo.name, model, rollout, optim, train }: Changes = {},
): TrainConfigInput {
  return {
    name,
    model: { path, adapter: "lora", rank: 8, ...model },
    data,
    algo,
    rollout: { tasksPerStep: 8, maxTokens: 16, ...rollout },
    optim: { learningRate: 5e-3, ...optim },
    train: { steps: 12, evalEvery: 12, checkpointEvery: 12, evalRows: 4, ...train },
  };
}
