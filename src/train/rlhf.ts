/**
 * RLHF in three stages (Ouyang et al. 2022, arXiv:2203.02155): supervised fine-tuning, a reward model from pairs, PPO against it. Each
 * stage is a run of its own, and its result is the next one's input. The four models of the last stage share one base: the policy and
 * the critic are trained adapters, the reward model is a frozen one, and the reference is the base itself.
 */
import { access } from "node:fs/promises";
import { join } from "node:path";
import { memoryTable } from "../compute/policy/local/memory-table.ts";
import { readModelFacts, type OpenedPolicy } from "../compute/policy/open.ts";
import { openAlgorithm } from "../algo/registry.ts";
import { ConfigError, expected } from "../errors.ts";
import { loadRewardModel, modelReward } from "../loop/reward/reward-model.ts";
import type { Env } from "../types.ts";
import type { AttachedModels } from "./attach.ts";
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from "./config.ts";
import { exportModel } from "./export.ts";
import { isRunFolder } from "./trained.ts";
import { train, type TrainOptions, type TrainResult } from "./train.ts";

type StageName = "sft" | "reward" | "policy";
/** A stage's own part of the configuration; what it leaves out has its default. */
type Stage = Partial<Omit<TrainConfigInput, "name" | "model" | "data" | "env" | "seed">>;
type Lora = Partial<Omit<Extract<TrainConfig["model"], { adapter: "lora" }>, "path" | "adapter">>;

export interface RlhfOptions {
  /** The base model: a folder, a file or a pulled hub id. */
  readonly model: string;
  /** The runs are <name>-sft, <name>-reward and <name>-policy. */
  readonly name: string;
  readonly seed?: number;
  /** Shape of every adapter; one for all, since the critic starts as a copy of the reward model's. */
  readonly adapter?: Lora;
  /** Dialogues. Left out, the base model is what the other stages start from. */
  readonly sft?: Stage & { readonly data: string };
  /**
   * Pairs: a file, or a function that makes one from the fine-tuned model (samples, labelled) and is told its folder; called again
   * after an interruption, it must give the same file. `caution` is how many standard deviations of an ensemble are taken off its mean.
   */
  readonly reward: Stage & { readonly data: string | ((model: string) => Promise<string>); readonly caution?: number };
  /**
   * Prompts. The environment's own reward only evaluates (a gold score, if there is one); with `train.evalEvery` 0 it is never asked.
   * Default algorithm: PPO, with the score also of answers that were cut.
   */
  readonly policy: Stage & { readonly env: Env };
  readonly runsFolder?: string;
  readonly signal?: AbortSignal;
  readonly observer?: TrainOptions["observer"] & { readonly onStage?: (stage: StageName, run: string) => void };
}

export interface RlhfResult {
  /** The model that reward model and policy are trained on, the stages' runs, and the folder of the reward model. */
  readonly model: string;
  readonly sft?: TrainResult;
  readonly reward: TrainResult & { readonly rewardModel: string };
  readonly policy: TrainResult;
}

/** Runs the stages that are not done yet: called again after an interruption, it goes on where it was. Errors as of `train`. */
export async function rlhf(options: RlhfOptions): Promise<RlhfResult> {
  const { sft, reward, policy, observer } = options;
  checkStages(options);
  const tuned = sft === undefined ? undefined : await runStage("sft", { ...options, input: { algo: { name: "sft" }, ...sft } });
  const model = tuned === undefined ? options.model : await mergedModel(tuned);
  const { caution = 0, data, ...own } = reward;
  const pairs = { ...own, data: typeof data === "string" ? data : await data(model) };
  const judged = await runStage("reward", { ...options, model, input: { algo: { name: "reward-model" }, ...pairs } });
  const rewardModel = join(judged.folder, "reward-model");
  for (const line of await memoryLines(model, options.adapter?.rank ?? 16)) observer?.onNote?.(line);
  const { env, ...given } = policy;
  const inputs = { files: [rewardModel], settings: { caution } };
  const trained = await runStage("policy", {
    ...options,
    model,
    input: { algo: { name: "ppo", cutEpisodes: "score" }, ...given },
    more: { env, inputs, attach: (opened) => attachReward(opened, { rewardModel, caution }) },
  });
  return { model, ...(tuned === undefined ? {} : { sft: tuned }), reward: { ...judged, rewardModel }, policy: trained };
}

/** What is wrong with a later stage is said before the first one is trained. */
function checkStages({ sft, ...options }: RlhfOptions): void {
  const { data: _pairs, caution: _caution, ...reward } = options.reward;
  const { env: _env, ...policy } = options.policy;
  const config = (stage: StageName, input: Stage) => {
    const { model, name, adapter } = options;
    return parseTrainConfig({ ...input, name: `${name}-${stage}`, model: { path: model, adapter: "lora", ...adapter } });
  };
  if (sft !== undefined) config("sft", { algo: { name: "sft" }, ...sft });
  config("reward", { algo: { name: "reward-model" }, ...reward });
  const { algo } = config("policy", { algo: { name: "ppo", cutEpisodes: "score" }, ...policy });
  if (openAlgorithm(algo).kind === "sampled") return;
  const remedy = "name one that samples, for example ppo, rloo or grpo";
  throw new ConfigError(expected("rlhf policy.algo.name", "an algorithm that learns from its own samples", algo.name, remedy));
}

interface StageOptions extends Pick<RlhfOptions, "model" | "name" | "seed" | "adapter" | "runsFolder" | "signal" | "observer"> {
  readonly input: Stage & { readonly data?: string };
  readonly more?: Pick<TrainOptions, "env" | "attach" | "inputs">;
}

async function runStage(stage: StageName, { input, more, ...options }: StageOptions): Promise<TrainResult> {
  const { model, name, seed, adapter, runsFolder = "runs", signal, observer } = options;
  const run = `${name}-${stage}`;
  const config: TrainConfigInput = {
    ...input,
    name: run,
    model: { path: model, adapter: "lora", ...adapter },
    ...(seed === undefined ? {} : { seed }),
  };
  observer?.onStage?.(stage, run);
  const resume = await isRunFolder(join(runsFolder, run));
  const given = { ...(observer === undefined ? {} : { observer }), ...(signal === undefined ? {} : { signal }) };
  return train(config, { ...more, runsFolder, resume, ...given });
}

/** The fine-tuned policy as a model folder of its own, written once for a number of steps. */
async function mergedModel({ folder: run, steps }: TrainResult): Promise<string> {
  const to = join(run, `model-${steps}`);
  const isThere = await access(to).then(() => true, () => false);
  if (!isThere) await exportModel(run, { to });
  return to;
}

/** The reward model on the policy's own engine; the critic starts as a copy of its (first) adapter. */
async function attachReward(
  { engine, renderer }: OpenedPolicy,
  { rewardModel, caution }: { readonly rewardModel: string; readonly caution: number },
): Promise<AttachedModels> {
  const { members } = await loadRewardModel(engine, rewardModel);
  return { reward: modelReward({ engine, renderer, members, caution, normalise: true }), criticFrom: members[0]!.adapter };
}

/** What the four models would take as copies, what GRPO's two would, and what they take here. */
async function memoryLines(model: string, rank: number): Promise<string[]> {
  const { files, architecture } = await readModelFacts(model);
  await files.close();
  const size = (bytes: number): string => (bytes < 1e8 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
  return memoryTable(architecture, rank).map(({ layout, weights, gradients, moments, total }) => {
    return `memory, ${layout}: ${size(total)} (weights ${size(weights)}, gradients ${size(gradients)}, moments ${size(moments)})`;
  });
}
