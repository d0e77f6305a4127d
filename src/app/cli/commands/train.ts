/** `flywheel train`: a configuration file (and overrides) to a trained run folder. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { ConfigError, expected, messageOf } from "../../../errors.ts";
import { FORBIDDEN_KEYS } from "../../../json.ts";
import type { TrainConfigInput } from "../../../train/config.ts";
import { train } from "../../../train/train.ts";
import { commandRollouts } from "../../server/agent-command.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { pathFrom, shownPath } from "../ui/places.ts";
import { tellStopped } from "../ui/stopped.ts";
import { outcomeLines, trainView } from "../ui/train-view.ts";

interface Given {
  readonly set: readonly string[];
  readonly name?: string;
  readonly runs: string;
  readonly resume?: boolean;
  readonly json?: boolean;
  readonly agent?: string;
}

export function registerTrain(program: Command, services: CliServices): void {
  program
    .command("train")
    .description("train a policy as a configuration file says; the run goes to runs/<name>")
    .argument("<config>", "a JSON file, as docs/configuration.md describes it")
    .option("-s, --set <key=value>", "override one key, for example optim.learningRate=1e-5 (repeatable)", collect, [])
    .option("-n, --name <name>", "name of the run folder")
    .option("--runs <folder>", "where run folders are", "runs")
    .option("--agent <command>", "plays the episodes: a program that asks the model at OPENAI_BASE_URL")
    .option("--resume", "go on from the newest good checkpoint")
    .option("--json", "progress as JSON lines on stderr, the result as one JSON line on stdout")
    .action((file: string, given: Given) => run(file, given, services));
}

const collect = (value: string, all: readonly string[]): string[] => [...all, value];

async function run(file: string, given: Given, services: CliServices): Promise<void> {
  const { cwd, stdout, environment, signal, command } = services;
  const json = given.json === true;
  const input = configOf(resolve(cwd, file), given, cwd);
  const view = trainView(services, json);
  const started = performance.now();
  try {
    await using agent = given.agent === undefined ? undefined : commandRollouts(given.agent, { cwd, environment });
    const result = await train(input as TrainConfigInput, {
      ...(agent === undefined ? {} : { attach: agent.attach }),
      runsFolder: resolve(cwd, given.runs),
      resume: given.resume === true,
      observer: view.observer,
      signal,
    });
    view.end();
    const seconds = (performance.now() - started) / 1000;
    const folder = shownPath(cwd, result.folder);
    if (json) {
      const rates = { before: view.before?.success ?? null, after: view.after?.success ?? null };
      return void stdout.write(`${JSON.stringify({ ...rates, seconds, steps: result.steps, folder })}\n`);
    }
    const paint = painter(wantsColour(stdout, environment));
    const outcome =
      view.before !== undefined && view.after !== undefined && view.before !== view.after
        ? ["", ...outcomeLines(view.before, view.after, paint), ""]
        : [];
    stdout.write(`${[...outcome, `${paint("run", "dim")}  ${folder}  ${paint(`${command} report ${folder}`, "cyan")}`].join("\n")}\n`);
  } catch (cause) {
    view.end();
    await tellStopped({ folder: resolve(cwd, given.runs, String(input["name"])), resume: resumeWords(file, given), json }, services);
    throw cause;
  } finally {
    view.end();
  }
}

/** The same command again, going on. */
function resumeWords(file: string, { set, name, runs, json, agent }: Given): string[] {
  return [
    "train",
    file,
    ...set.flatMap((override) => ["--set", override]),
    ...(name === undefined ? [] : ["--name", name]),
    ...(runs === "runs" ? [] : ["--runs", runs]),
    ...(agent === undefined ? [] : ["--agent", agent]),
    ...(json === true ? ["--json"] : []),
    "--resume",
  ];
}

function configOf(path: string, given: Given, cwd: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new ConfigError(expected(`configuration ${path}`, "a readable JSON file", messageOf(cause)), { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(expected(`configuration ${path}`, "JSON", messageOf(cause)), { cause });
  }
  if (!isRecord(value)) throw new ConfigError(expected(`configuration ${path}`, "a JSON object", text.slice(0, 40)));
  for (const override of given.set) setKey(value, override);
  if (given.name !== undefined) value["name"] = given.name;
  const model = value["model"];
  if (isRecord(model) && typeof model["path"] === "string") model["path"] = pathFrom(cwd, model["path"]);
  return value;
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** `optim.learningRate=1e-5`: the value is read as JSON, or else as text. */
function setKey(config: Record<string, unknown>, override: string): void {
  const [, path, text] = /^([^=]+)=(.*)$/s.exec(override) ?? [];
  if (path === undefined || text === undefined) throw new ConfigError(expected("--set", "key=value", override));
  const keys = path.split(".");
  const forbidden = keys.find((key) => FORBIDDEN_KEYS.has(key));
  if (forbidden !== undefined) throw new ConfigError(expected("--set", "a configuration key", forbidden));
  let at = config;
  for (const key of keys.slice(0, -1)) {
    if (!Object.hasOwn(at, key) || !isRecord(at[key])) at[key] = {};
    at = at[key] as Record<string, unknown>;
  }
  at[keys.at(-1)!] = valueOf(text);
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
