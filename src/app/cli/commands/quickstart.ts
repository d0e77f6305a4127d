/** `flywheel quickstart`: trains the shipped model to use tools, with GRPO and a verifiable reward, and shows what it learned. */
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { shippedModel } from "../../../compute/models/files/shipped.ts";
import { train } from "../../../train/train.ts";
import { closing, opening } from "../quickstart/messages.ts";
import { freeName, quickstartConfig } from "../quickstart/settings.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { wholeOption } from "../ui/numbers.ts";
import { shownPath } from "../ui/places.ts";
import { tellStopped } from "../ui/stopped.ts";
import { trainView } from "../ui/train-view.ts";

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

async function run(given: Given, services: CliServices): Promise<void> {
  const { cwd, stdout, stderr, environment, signal, command } = services;
  const json = given.json === true;
  const runsFolder = resolve(cwd, given.runs);
  const name = freeName(runsFolder);
  const config = quickstartConfig({
    name,
    path: shippedModel(),
    steps: given.maxSteps,
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
    stdout.write(`${closing({ before: before!, after: after!, seconds, folder: shownPath(cwd, folder), command, paint }).join("\n")}\n`);
  } catch (cause) {
    view.end();
    const folder = join(runsFolder, name);
    const runs = given.runs === "runs" ? [] : ["--runs", given.runs];
    const resume = ["train", shownPath(cwd, join(folder, "config.json")), ...runs, "--resume"];
    await tellStopped({ folder, resume, json }, services);
    throw cause;
  } finally {
    view.end();
  }
}
