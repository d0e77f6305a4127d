import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { train } from "../../src/train/train.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

setFlagsFromString("--expose_gc");
const collect = runInNewContext("gc") as () => void;

test("sixty steps of constant shape hold no more memory at the end than after fifteen", { timeout: 600_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  // The KL term gives every step an update; the small rate keeps the answers as long as they were.
  const config = lettersConfig(model, {
    algo: { groupSize: 4, klCoef: 0.01 },
    rollout: { tasksPerStep: 2 },
    optim: { learningRate: 1e-6 },
    train: { steps: 60, checkpointEvery: 60 },
  });
  const resident: number[] = [];
  const onStep = (): void => {
    collect();
    resident.push(process.memoryUsage.rss());
  };
  await train(config, { env: letters(), runsFolder, observer: { onStep } });
  const low = (from: number, to: number): number => Math.min(...resident.slice(from, to));
  expect(low(55, 60) / low(12, 17)).toBeLessThan(1.05);
});
