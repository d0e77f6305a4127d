/**
 * The four stages of DeepSeek-R1 (arXiv:2501.12948) in small: supervised cold start on worked dialogues, GRPO, supervised training of the
 * base model on the policy's own right answers, GRPO again. Each stage is a run whose merged model the next one opens.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { exportModel } from "../../src/train/export.ts";
import { train, type TrainOptions } from "../../src/train/train.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import type { Env, Group, Message, Task } from "../../src/types.ts";
import { chain, worked } from "./chain.ts";
import type { Settings } from "./settings.ts";

export interface Variant {
  readonly name: string;
  readonly reasoning: boolean;
}

interface StageContext {
  readonly variant: Variant;
  readonly settings: Settings;
  readonly folder: string;
  /** Called when a stage begins: what is told of its progress, and what is called when it has ended. */
  readonly watch?: (stage: Stage) => { readonly observer: NonNullable<TrainOptions["observer"]>; end(): void };
}

interface StageRun extends StageContext {
  readonly env: Env;
  /** The model that the stage before left. */
  readonly before: string;
  readonly observer: NonNullable<TrainOptions["observer"]>;
}

export const stages = ["cold", "grpo-1", "rejection", "grpo-2"] as const;
type Stage = (typeof stages)[number];

export const runName = (variant: Variant, stage: Stage): string => `${variant.name}-${stage}`;
const sizes = { train: 20_000, test: 2_000 };

/** Runs the stages that are not done yet, in order; returns the seconds of each that ran. */
export async function runStages(context: StageContext): Promise<Partial<Record<Stage, number>>> {
  const { settings, variant } = context;
  const seconds: Partial<Record<Stage, number>> = {};
  const env = chain({ reasoning: variant.reasoning, terms: settings.terms, sizes });
  mkdirSync(context.folder, { recursive: true });
  for (const [place, stage] of stages.entries()) {
    if (existsSync(modelOf(context, stage))) continue;
    const started = performance.now();
    const before = place === 0 ? settings.model : modelOf(context, stages[place - 1]!);
    const watching = context.watch?.(stage);
    await runStage(stage, { ...context, env, before, observer: watching?.observer ?? {} });
    watching?.end();
    await exportModel(join(context.folder, runName(variant, stage)), { to: modelOf(context, stage), format: "safetensors" });
    seconds[stage] = (performance.now() - started) / 1000;
  }
  return seconds;
}

const modelOf = ({ folder, variant }: StageContext, stage: Stage): string => join(folder, `${runName(variant, stage)}-model`);

async function runStage(stage: Stage, context: StageRun): Promise<void> {
  const { settings, variant, env, before, folder, observer } = context;
  const config = isGrpo(stage)
    ? grpoConfig(stage, context)
    : supervisedConfig(stage, { ...context, data: await dialoguesFor(stage, context) });
  const path = isGrpo(stage) ? before : settings.model;
  const input: TrainConfigInput = { ...config, model: { path, ...settings.adapter } };
  const resume = existsSync(join(folder, runName(variant, stage), "config.json"));
  await train(input, { env, runsFolder: folder, resume, observer });
}

const isGrpo = (stage: Stage): stage is "grpo-1" | "grpo-2" => stage.startsWith("grpo");

/** The environment as the configuration names it, so that its options are a part of the run's hash. */
const named = ({ variant, settings }: StageContext) => ({ name: "chain", reasoning: variant.reasoning, terms: [...settings.terms] });

function grpoConfig(stage: Stage, context: StageContext): Omit<TrainConfigInput, "model"> {
  const { settings, variant } = context;
  const { steps, perStep, learningRate } = settings.grpo;
  const { maxTokens, concurrency, groupSize, evalTasks } = settings;
  return {
    name: runName(variant, stage),
    seed: stages.indexOf(stage),
    env: named(context),
    algo: { name: "grpo", groupSize, clipHigh: 0.28 },
    rollout: { tasksPerStep: perStep, maxTokens, maxTurns: 1, concurrency },
    optim: { learningRate, warmupSteps: Math.min(2, steps - 1) },
    train: { steps, evalEvery: Math.ceil(steps / 2), evalTasks, checkpointEvery: Math.ceil(steps / 4) },
  };
}

function supervisedConfig(
  stage: "cold" | "rejection",
  { data, ...context }: StageContext & { readonly data: string },
): Omit<TrainConfigInput, "model"> {
  const { settings, variant } = context;
  const { steps, perStep, learningRate } = settings[stage];
  const { maxTokens, concurrency, evalTasks } = settings;
  return {
    name: runName(variant, stage),
    env: named(context),
    data,
    algo: { name: "sft" },
    rollout: { tasksPerStep: perStep, maxTokens, maxTurns: 1, concurrency },
    optim: { learningRate, schedule: "linear", warmupSteps: Math.min(5, steps - 1) },
    train: { steps, evalEvery: steps, evalTasks, checkpointEvery: Math.ceil(steps / 4) },
  };
}

/** The worked dialogues of the cold start (the last training tasks); for the third stage the policy's own right answers beside them. */
async function dialoguesFor(stage: "cold" | "rejection", context: StageRun): Promise<string> {
  const { env, folder, variant, settings } = context;
  const file = join(folder, `${runName(variant, stage)}.jsonl`);
  if (existsSync(file)) return file;
  const source = env.tasks("train");
  const last = (count: number, after: number): Task[] => Array.from({ length: count }, (_, i) => source.at(source.size - 1 - after - i));
  const written = last(settings.worked, 0).map((task) => [...task.prompt, worked(task, variant.reasoning)]);
  const sampled = stage === "cold" ? [] : await sampledDialogues(last(settings.sampled.tasks, settings.worked), context);
  const dialogues = [...written, ...sampled];
  writeFileSync(file, `${dialogues.map((messages) => JSON.stringify({ messages })).join("\n")}\n`);
  return file;
}

async function sampledDialogues(tasks: readonly Task[], { env, settings, before, observer }: StageRun): Promise<(readonly Message[])[]> {
  const { maxTokens, concurrency, sampled: { samples, keep } } = settings;
  await using policy = await openPolicy(before, {});
  await policy.engine.publish();
  const options = { seed: 0, step: 0, stage: "train", temperature: 1, maxTokens, maxTurns: 1, concurrency, deadlineSeconds: 300 } as const;
  const groups = await collectGroups(env, tasks, { ...options, policy, groupSize: samples });
  const kept = groups.flatMap((group) => rightAnswers(group, keep));
  observer.onNote?.(`rejection sampling: ${kept.length} of ${tasks.length * samples} answers kept, at most ${keep} a task`);
  return kept;
}

/** The right answers of a group as dialogues, each text once, at most `keep`. A score of 1 means right and in form: the form is a gate. */
export function rightAnswers({ members }: Pick<Group, "members">, keep: number): (readonly Message[])[] {
  const right = members.filter(({ verdict }) => verdict.type === "scored" && verdict.score === 1);
  const texts = new Map(right.map(({ trajectory: { messages } }) => [JSON.stringify(messages.at(-1)), messages]));
  return [...texts.values()].slice(0, keep);
}
