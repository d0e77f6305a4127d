import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { train } from "../../src/train/train.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

setFlagsFromString("--expose_gc");
const collect = runInNewContext("gc") as () => void;

test("200 steps of constant shape hold no more memory at the end than at step 20", { timeout: 600_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  // The KL term gives every step an update; the small rate keeps the answers as long as they were.
  const config = lettersConfig(model, {
    algo: { groupSize: 4, klCoef: 0.01 },
    rollout: { tasksPerStep: 2 },
    optim: { learningRate: 1e-6 },
    train: { steps: 200, checkpointEvery: 50 },
  });
  const resident: number[] = [];
  const onStep = (): void => {
    collect();
    resident.push(process.memoryUsage.rss());
  };
  await train(config, { env: letters(), runsFolder, observer: { onStep } });
  expect(resident.length).toBe(200);
  // The least of five neighbours: what a collection has not reached yet is not held.
  const around = (step: number): number => Math.min(...resident.slice(step - 3, step + 2));
  expect(around(197) / around(20)).toBeLessThan(1.05);
});
