/** `flywheel quickstart`: trains the shipped model to use tools, with GRPO and a verifiable reward, and shows what it learned. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { ModelError, expected } from "../../../errors.ts";
import type { TrainConfigInput } from "../../../train/config.ts";
import type { Evaluation } from "../../../train/evaluate/evaluate.ts";
import { train } from "../../../train/train.ts";
import type { Scored, ToolCall } from "../../../types.ts";
import type { CliServices } from "../services.ts";
import { painter, visible, wantsColour, type Paint } from "../ui/colour.ts";
import { wholeOption } from "../ui/numbers.ts";
import { shownPath } from "../ui/places.ts";
import { outcomeLines, trainView } from "../ui/train-view.ts";

interface Given {
  readonly maxSteps: number;
  readonly runs: string;
  readonly seed: number;
  readonly json?: boolean;
}

const defaultSteps = 40;

export function registerQuickstart(program: Command, services: CliServices): void {
  program
    .command("quickstart")
    .description("train the shipped model to use tools, in a few minutes, and see what it learned")
    .option("--max-steps <n>", "training steps", wholeOption, defaultSteps)
    .option("--runs <folder>", "where run folders are", "runs")
    .option("--seed <n>", "address of all randomness", wholeOption, 0)
    .option("--json", "end with one JSON line: before, after, seconds, steps")
    .action((given: Given) => run(given, services));
}

/** The model that comes with the package, found from the compiled file or from the source. */
function shippedModel(): string {
  const folder = fileURLToPath(new URL("../../../../models/desk-1m", import.meta.url));
  if (existsSync(join(folder, "model.safetensors"))) return folder;
  throw new ModelError(
    expected(
      "quickstart",
      `the shipped model in ${folder}`,
      "nothing",
      "install the package again, or make the model with npm run recipe:desk",
    ),
  );
}

/** The settings of the quickstart: full fine-tuning of the small model, 16 questions of 8 samples a step. */
function quickstartConfig({
  name,
  path,
  steps,
  seed,
}: {
  name: string;
  path: string;
  steps: number;
  seed: number;
}): TrainConfigInput {
  return {
    name,
    seed,
    model: { path, adapter: "full" },
    env: { name: "desk" },
    algo: { name: "grpo", groupSize: 8, clipHigh: 0.28 },
    rollout: { tasksPerStep: 16, maxTokens: 64, maxTurns: 4, concurrency: 128 },
    optim: { learningRate: 2e-4, warmupSteps: Math.min(2, steps - 1), schedule: "constant" },
    train: { steps, evalEvery: steps, evalTasks: 300, checkpointEvery: Math.min(20, steps), microBatchTokens: 4096 },
  };
}

async function run(given: Given, services: CliServices): Promise<void> {
  const { cwd, stdout, stderr, environment, signal } = services;
  const json = given.json === true;
  const runsFolder = resolve(cwd, given.runs);
  const config = quickstartConfig({
    name: freeName(runsFolder),
    path: shippedModel(),
    steps: Math.max(1, given.maxSteps),
    seed: given.seed,
  });
  const view = trainView(services, json);
  if (!json) for (const line of opening(painter(wantsColour(stderr, environment)))) stderr.write(`${line}\n`);
  const started = performance.now();
  try {
    const { folder, steps } = await train(config, { runsFolder, observer: view.observer, signal });
    view.end();
    const seconds = (performance.now() - started) / 1000;
    const { before, after } = view;
    if (json) return void stdout.write(`${JSON.stringify({ before: before?.success, after: after?.success, seconds, steps })}\n`);
    const paint = painter(wantsColour(stdout, environment));
    stdout.write(`${closing({ before: before!, after: after!, seconds, folder: shownPath(cwd, folder), paint }).join("\n")}\n`);
  } finally {
    view.end();
  }
}

/** The first of quickstart, quickstart-2, quickstart-3, … that is not taken. */
function freeName(runsFolder: string): string {
  for (let i = 1; ; i++) {
    const name = i === 1 ? "quickstart" : `quickstart-${i}`;
    if (!existsSync(join(runsFolder, name))) return name;
  }
}

function opening(paint: Paint): string[] {
  return [
    paint("Flywheel quickstart", "bold"),
    "A one-million-parameter model answers office questions. Some need a calculator, some a look-up, some both in sequence, some",
    "no tool at all. It is rewarded for a right final answer and for nothing else; how it uses tools is measured beside that.",
    "",
  ];
}

interface Closing {
  readonly before: Evaluation;
  readonly after: Evaluation;
  readonly seconds: number;
  readonly folder: string;
  readonly paint: Paint;
}

function closing({ before, after, seconds, folder, paint }: Closing): string[] {
  const flipped = after.samples.findIndex(
    (sample, i) => succeeded(sample) && !succeeded(before.samples[i]!) && sample.trajectory.turns.length > 1,
  );
  const example = flipped < 0 ? [] : ["", ...sideBySide(before.samples[flipped]!, after.samples[flipped]!, paint)];
  return [
    "",
    ...outcomeLines(before, after, paint),
    ...example,
    "",
    `${paint("time", "dim")}   ${Math.round(seconds)} s`,
    `${paint("look", "dim")}   ${paint(`npx flywheel inspect ${folder}`, "cyan")}   every rollout, token by token`,
    `${paint("curves", "dim")} ${paint(`npx flywheel report ${folder}`, "cyan")}    one HTML file`,
  ];
}

const succeeded = ({ verdict }: Scored): boolean => verdict.type === "scored" && verdict.score >= 1;

/** One held-out question, as it was answered before and after. */
function sideBySide(before: Scored, after: Scored, paint: Paint): string[] {
  const question = after.trajectory.task.prompt.at(-1)!.content;
  const turns = ({ trajectory }: Scored): string[] =>
    trajectory.messages.slice(trajectory.task.prompt.length).map((message) => {
      const calls = (message.toolCalls ?? []).map(shownCall).join(" ");
      return `    ${message.role === "tool" ? "→ " : ""}${visible(calls === "" ? message.content : calls)}`;
    });
  return [
    `${paint("a held-out question", "dim")}  ${visible(question)}`,
    paint("  before", "red"),
    ...turns(before),
    paint("  after", "green"),
    ...turns(after),
  ];
}

function shownCall({ name, arguments: given }: ToolCall): string {
  const values = Object.values(given).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return `${name}(${values.join(", ")})`;
}
