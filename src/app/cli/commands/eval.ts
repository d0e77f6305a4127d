/** `flywheel eval`: a model, or a run's trained policy, on an environment's held-out tasks. */
import type { Command } from "commander";
import { ConfigError, expected, visible } from "../../../errors.ts";
import { openEnv } from "../../../env/index.ts";
import { evaluate, type Evaluation } from "../../../train/evaluate/evaluate.ts";
import { envOf } from "../play/open.ts";
import type { CliServices } from "../services.ts";
import { openSource, runSettings } from "../source.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { realOption, tokenLimit, wholeOption } from "../ui/numbers.ts";
import { progress } from "../ui/progress.ts";
import { table } from "../ui/table.ts";
import { evaluationLine } from "../ui/train-view.ts";

interface Given {
  readonly env?: string;
  readonly tasks: number;
  readonly samples: number;
  readonly temperature: number;
  readonly maxTokens?: number;
  readonly maxTurns?: number;
  readonly concurrency: number;
  readonly seed: number;
  readonly json?: boolean;
}

export function registerEval(program: Command, services: CliServices): void {
  program
    .command("eval")
    .description("measure a model or a run's policy on held-out tasks: success with its interval, pass@k, tool use")
    .argument("<source>", "run folder, model folder or file, or the hub id of a pulled model")
    .option("-e, --env <name>", "environment, or JSON with its options; default: the run's own, desk for a model")
    .option("-t, --tasks <n>", "held-out tasks", wholeOption, 100)
    .option("-k, --samples <n>", "samples of each task, for pass@k", wholeOption, 1)
    .option("--temperature <t>", "0 is greedy", realOption, 0)
    .option("--max-tokens <n>", "of one turn; default: the run's, 128 for a model", wholeOption)
    .option("--max-turns <n>", "assistant turns of an episode; default: the run's, 8 for a model", wholeOption)
    .option("--concurrency <n>", "episodes at the same time", wholeOption, 64)
    .option("--seed <n>", "address of all randomness", wholeOption, 0)
    .option("--json", "print the result as JSON")
    .action((source: string, given: Given) => run(source, given, services));
}

async function run(source: string, given: Given, services: CliServices): Promise<void> {
  const { stdout, stderr, environment, signal } = services;
  const own = await runSettings(source, services);
  const named = given.env === undefined ? (own === null ? { name: "desk" } : own.env) : envOf(given.env);
  if (named === undefined) {
    const remedy = "it was trained on given examples, or its environment came from a program: name one with --env";
    throw new ConfigError(expected(`run ${source}`, "a configuration that names its environment", "none", remedy));
  }
  const env = await openEnv(named);
  const split = env.tasks("test");
  if (given.tasks < 1 || given.tasks > split.size) throw new ConfigError(expected("--tasks", `1 to ${split.size}`, String(given.tasks)));
  if (given.samples > 1 && given.temperature === 0)
    throw new ConfigError(expected("--samples above 1", "--temperature above 0", "0", "greedy samples are all the same"));
  await using policy = await openSource(source, services);
  const { contextLength } = policy.engine.info;
  const maxTokens = tokenLimit(given.maxTokens, own?.maxTokens ?? 128, contextLength);
  const bar = progress({ label: "evaluating", total: given.tasks * given.samples, stream: stderr, json: given.json === true, environment });
  const tasks = Array.from({ length: given.tasks }, (_, i) => split.at(i));
  try {
    const result = await evaluate(env, tasks, {
      ...given,
      ...own?.compaction,
      maxTokens,
      maxTurns: given.maxTurns ?? own?.maxTurns ?? 8,
      policy,
      step: 0,
      deadlineSeconds: 600,
      signal,
      onRollout: (done) => bar.update(done),
    });
    bar.end();
    if (given.json === true) return void stdout.write(`${JSON.stringify({ env: named, ...summary(result) })}\n`);
    const paint = painter(wantsColour(stdout, environment));
    const line = evaluationLine(result, 0, paint).replace("before training", () => visible(policy.files.name.slice(0, 40)));
    stdout.write(`${[`environment  ${env.name}`, line, ...details(result)].join("\n")}\n`);
  } finally {
    bar.end();
  }
}

function summary({ samples: _, successes: __, ...figures }: Evaluation): object {
  return { ...figures, tokensPerSecond: figures.sampledTokens / figures.seconds };
}

function details(result: Evaluation): string[] {
  const passes = Object.entries(result.passAtK).map(([k, value]) => [`pass@${k}`, value.toFixed(3)]);
  const measures = Object.entries(result.measures).map(([name, value]) => [visible(name), value.toFixed(3)]);
  return ["", ...table([{ title: "measure" }, { title: "mean", align: "right" }], [...(passes.length > 1 ? passes : []), ...measures])];
}
