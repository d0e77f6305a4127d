/** Training steps: forward, backward and AdamW over 4 rows of 128 tokens. */
import { supervisedBatch } from "../../src/loop/batch/dialogue.ts";
import { crossEntropy } from "../../src/loop/loss/cross-entropy.ts";
import type { Batch } from "../../src/types.ts";
import type { Architecture } from "../../src/compute/models/architecture.ts";
import { trainCost } from "../cost.ts";
import { adamw, lora, openEngine, randomIds } from "../engines.ts";
import { time, type Figure, type FigureGroup } from "../figure.ts";
import { architectureOf } from "../shapes.ts";

const [rows, length] = [4, 128];

function batchOf(a: Architecture): Batch {
  const trained = Int32Array.from({ length: length - 1 }, (_, i) => i + 1);
  const ids = (row: number): Int32Array => Int32Array.from(randomIds(a, length, "train", row));
  return supervisedBatch(Array.from({ length: rows }, (_, r) => ({ ids: ids(r), trained })), "token-mean");
}

const trainStep = (train: "lora" | "full"): FigureGroup => async ({ shape, ...options }) => {
  const a = architectureOf(shape);
  await using engine = openEngine(a, train);
  const batch = batchOf(a);
  const run = async (): Promise<void> => {
    await engine.forwardBackward(batch, crossEntropy);
    await engine.optimStep(adamw);
  };
  const cost = trainCost(a, { tokens: rows * length, heads: rows * (length - 1), lora: train === "lora" ? lora : undefined });
  const { seconds, rest } = await time({ run, cost }, options);
  const name = train === "lora" ? `LoRA step, rank ${lora.rank}, ${rows} x ${length}` : `full step, ${rows} x ${length}`;
  return [{ name, value: (rows * length) / seconds, unit: "tokens/s", ...rest }];
};

export const loraStep = trainStep("lora");
export const fullStep = trainStep("full");

/** Peak resident memory of a process that makes LoRA steps and nothing else. */
export const loraMemory: FigureGroup = async ({ shape, say }) => {
  const a = architectureOf(shape);
  await using engine = openEngine(a, "lora");
  const weights = 4 * engine.info.parameters;
  const before = process.memoryUsage().rss;
  const batch = batchOf(a);
  for (let i = 0; i < 3; i++) {
    await engine.forwardBackward(batch, crossEntropy);
    await engine.optimStep(adamw);
    say(`step ${i + 1}/3: ${(process.memoryUsage().rss / 1e9).toFixed(2)} GB`);
  }
  const figure: Figure = {
    name: `LoRA step, peak memory`,
    value: process.resourceUsage().maxRSS / 1e6,
    unit: "GB",
    note: `${(before / 1e9).toFixed(2)} GB before, weights ${(weights / 1e9).toFixed(2)} GB`,
  };
  return [figure];
};
