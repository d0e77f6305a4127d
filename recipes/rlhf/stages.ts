/** The runs: one pipeline (fine-tuning, reward model, PPO with a cautious ensemble), then PPO and DPO from the same weights. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadRewardModel, modelReward } from "../../src/loop/reward/reward-model.ts";
import { rlhf } from "../../src/train/rlhf.ts";
import { train, type TrainOptions } from "../../src/train/train.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import { sampledPairs, scriptedDialogues } from "./answers.ts";
import { adapter, annotator, type Setup } from "./setup.ts";
import { helpful } from "./task.ts";

export interface Place {
  /** The base model, and the folder of the runs. */
  readonly base: string;
  readonly folder: string;
  readonly setup: Setup;
  readonly observer: NonNullable<TrainOptions["observer"]>;
  /** Told of each run that begins. */
  readonly onRun: (name: string) => void;
}

export interface Foundation {
  /** The fine-tuned model, the reward model of three, and the pairs that both it and DPO are trained on. */
  readonly model: string;
  readonly rewardModel: string;
  readonly pairs: string;
}

/** Deviations of the ensemble that are taken off its mean. */
export const caution = 2;

function writeRows(file: string, rows: readonly object[]): string {
  writeFileSync(file, `${rows.map((row) => JSON.stringify(row)).join("\n")}\n`);
  return file;
}

/** PPO's settings, the same in all runs but for the KL in the reward. */
function ppo({ setup }: Place, klRewardCoef: number) {
  const { criticLearningRate } = setup;
  const epochs = { epochsPerBatch: 2, criticEpochsPerBatch: 1, criticWarmupSteps: 2 };
  return { name: "ppo", groupSize: 1, cutEpisodes: "score", whitenAdvantages: true, criticLearningRate, klRewardCoef, ...epochs } as const;
}

const rolloutOf = ({ setup }: Place, part: Setup["sft"]) => ({ maxTokens: setup.maxTokens, maxTurns: 1, ...part.rollout });

/** The three stages as one pipeline. Its policy is trained on the ensemble's mean less `caution` deviations, without KL. */
export async function foundation(place: Place): Promise<Foundation> {
  const { base, folder, setup, observer, onRun } = place;
  mkdirSync(folder, { recursive: true });
  const pairs = join(folder, "pairs.jsonl");
  const dialogues = join(folder, "dialogues.jsonl");
  if (!existsSync(dialogues)) writeRows(dialogues, scriptedDialogues(setup.dialogues));
  const once = (part: Setup["sft"]) => ({ ...part, train: { evalEvery: 0, checkpointEvery: 1000, ...part.train } });
  const { model, reward } = await rlhf({
    model: base,
    name: "helpful",
    adapter,
    sft: { data: dialogues, ...once(setup.sft), rollout: rolloutOf(place, setup.sft) },
    reward: {
      data: async (tuned) => {
        const { maxTokens, prompts: count } = setup;
        if (!existsSync(pairs)) writeRows(pairs, await sampledPairs(tuned, { ...annotator, count, maxTokens }));
        return pairs;
      },
      algo: { name: "reward-model", ensemble: 3 },
      caution,
      ...setup.reward,
      rollout: rolloutOf(place, setup.reward),
      train: { evalRows: setup.heldoutPairs, evalEvery: 20, checkpointEvery: 1000, ...setup.reward.train },
    },
    policy: { env: helpful, algo: ppo(place, 0), ...setup.policy, rollout: rolloutOf(place, setup.policy) },
    runsFolder: folder,
    observer: { ...observer, onStage: (_, run) => onRun(run) },
  });
  return { model, rewardModel: reward.rewardModel, pairs };
}

/** PPO on the first member alone, with the given KL in the reward. */
export async function single(
  place: Place,
  { model, rewardModel }: Foundation,
  { name, kl }: { readonly name: string; readonly kl: number },
): Promise<string> {
  const { policy } = place.setup;
  const run = { ...policy, rollout: rolloutOf(place, policy) };
  return trained(place, { name, model: { path: model, ...adapter }, algo: ppo(place, kl), ...run }, {
    env: helpful,
    inputs: { files: [rewardModel] },
    attach: async ({ engine, renderer }) => {
      const members = (await loadRewardModel(engine, rewardModel)).members.slice(0, 1);
      return { reward: modelReward({ engine, renderer, members, normalise: true }), criticFrom: members[0]!.adapter };
    },
  });
}

/** DPO on the pairs that the reward model was trained on. */
export async function direct(place: Place, { model, pairs }: Foundation, { name, beta }: { name: string; beta: number }): Promise<string> {
  const { setup } = place;
  const run = { ...setup.dpo, rollout: rolloutOf(place, setup.dpo), train: { ...setup.dpo.train, evalRows: setup.heldoutPairs } };
  return trained(place, { name, model: { path: model, ...adapter }, data: pairs, algo: { name: "dpo", beta }, ...run }, { env: helpful });
}

/** Trains or goes on with a run; its folder. */
export async function trained(
  place: Place,
  config: TrainConfigInput & { readonly name: string },
  options: Pick<TrainOptions, "env" | "attach" | "inputs">,
): Promise<string> {
  const { folder: runsFolder, observer, onRun } = place;
  onRun(config.name);
  const resume = existsSync(join(runsFolder, config.name, "config.json"));
  return (await train(config, { ...options, runsFolder, resume, observer })).folder;
}
