/** What a reward-model run leaves behind: its adapters with their heads, and how their scores are spread. */
import { join } from "node:path";
import type { RewardMember, RewardModelFile } from "../loop/reward/reward-model.ts";
import type { Engine, OfflineAlgorithm } from "../types.ts";
import type { TrainConfig } from "./config.ts";
import { batchOf, type Example } from "./examples.ts";
import { adapterNames } from "./learners.ts";
import { makeFolder, writeWhole } from "./record/files.ts";

interface Trained {
  readonly algorithm: OfflineAlgorithm;
  readonly config: TrainConfig;
  readonly examples: readonly Example[];
  readonly policy: { readonly engine: Engine };
}

/** Training examples over which mean and deviation are taken: evenly spread over the data. */
const most = 512;

/** Writes `folder/<adapter>/` and `folder/reward.json`. */
export async function writeRewardModel(folder: string, { algorithm, config, examples, policy: { engine } }: Trained): Promise<void> {
  if (config.model.adapter !== "lora") return;
  const { rank, alpha } = config.model;
  const stride = Math.max(1, examples.length / most);
  const some = Array.from({ length: Math.min(most, examples.length) }, (_, i) => examples[Math.floor(i * stride)]!);
  const rows = batchOf(some, algorithm).units.flatMap((unit) => [...unit.rows]);
  const members: RewardMember[] = [];
  await makeFolder(folder);
  for (const adapter of adapterNames(algorithm)) {
    const values = (await engine.values(rows, { adapter })).flatMap((row) => [...row]);
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
    members.push({ adapter, rank, alpha, mean, deviation });
    await engine.saveAdapter(adapter, join(folder, adapter));
  }
  const { separator } = algorithm.settings;
  const file: RewardModelFile = {
    format: 1,
    kind: algorithm.examples === "steps" ? "process" : "reward",
    separator: typeof separator === "string" ? separator : null,
    examples: examples.length,
    members,
  };
  await writeWhole(join(folder, "reward.json"), `${JSON.stringify(file, null, 2)}\n`);
}
