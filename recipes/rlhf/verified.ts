/**
 * A reward model from verified outcomes: answers of the shipped model to questions that need a sum, judged by the environment, become
 * pairs; the model that learned from them then grades in place of the verifier. Where the two disagree is what this stage is about.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openPolicy, type OpenedPolicy } from "../../src/compute/policy/open.ts";
import { desk } from "../../src/env/desk.ts";
import { agreement, pairsFromGroups, type JudgedAnswer } from "../../src/loop/reward/agreement.ts";
import { loadRewardModel, modelReward, scoreConversations } from "../../src/loop/reward/reward-model.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { readTrajectories } from "../../src/train/record/read-run.ts";
import type { Message, Scored } from "../../src/types.ts";
import { adapter } from "./setup.ts";
import { trained, type Place } from "./stages.ts";

const env = { name: "desk", kinds: ["calculator"] };
const environment = desk({ kinds: ["calculator"] });
const tools = environment.tools.map(({ spec }) => spec);
const rollout = { maxTokens: 64, maxTurns: 4, concurrency: 128 };

/** What the verified stage takes; smaller in tests. */
export interface VerifiedSize {
  readonly tasks: number;
  readonly samples: number;
  readonly rewardSteps: number;
  readonly policySteps: number;
  /** Tasks of one step, and samples of each. */
  readonly perStep: number;
  readonly groupSize: number;
  readonly evalTasks: number;
}

const usual: VerifiedSize = { tasks: 160, samples: 6, rewardSteps: 40, policySteps: 16, perStep: 8, groupSize: 8, evalTasks: 150 };

export interface Compared extends Omit<ReturnType<typeof agreement>, "disagreements"> {
  /** Mean score of right and of wrong answers. */
  readonly ofRight: number;
  readonly ofWrong: number;
  readonly worst: readonly { readonly text: string; readonly score: number; readonly right: boolean; readonly misplaced: number }[];
}

export interface Verified {
  readonly pairs: number;
  /** Held-out answers before RL, after RL on the verifier, and after RL on the model. */
  readonly start: Compared;
  readonly verifier: Compared;
  readonly model: Compared;
}

export async function verified(place: Place, size: VerifiedSize = usual): Promise<Verified> {
  const pairs = join(place.folder, "verified-pairs.jsonl");
  if (!existsSync(pairs)) await writePairs(place.base, pairs, size);
  const { rewardSteps, policySteps, perStep, groupSize, evalTasks } = size;
  const model = { path: place.base, ...adapter };
  const judge = {
    name: "verified-reward", model, data: pairs, algo: { name: "reward-model" }, rollout: { tasksPerStep: 16 },
    optim: { learningRate: 2e-3, schedule: "cosine", warmupSteps: Math.min(4, rewardSteps - 1) },
    train: { steps: rewardSteps, evalEvery: 0, checkpointEvery: rewardSteps },
  } as const;
  const rewardModel = join(await trained(place, judge, {}), "reward-model");
  const grpo = {
    model, env, algo: { name: "grpo", groupSize }, rollout: { ...rollout, tasksPerStep: perStep },
    optim: { learningRate: 1e-3, warmupSteps: Math.min(2, policySteps - 1) },
    train: { steps: policySteps, evalEvery: policySteps, evalTasks, checkpointEvery: policySteps },
  } as const;
  const byVerifier = await trained(place, { ...grpo, name: "verified-by-verifier" }, {});
  const byModel = await trained(place, { ...grpo, name: "verified-by-model" }, {
    inputs: { files: [rewardModel] },
    attach: async ({ engine, renderer }) => {
      const { members } = await loadRewardModel(engine, rewardModel);
      return { reward: modelReward({ engine, renderer, members, tools, normalise: true }) };
    },
  });
  await using policy = await openPolicy(place.base, { train: { type: "none" } });
  const { members } = await loadRewardModel(policy.engine, rewardModel);
  const after = async (run: string, step: number): Promise<Compared> =>
    compare((await readTrajectories(run, "eval", step)).map(({ scored }) => scored), { policy, members });
  return {
    pairs: readFileSync(pairs, "utf8").trim().split("\n").length,
    start: await after(byVerifier, 0),
    verifier: await after(byVerifier, policySteps),
    model: await after(byModel, policySteps),
  };
}

/** Answers to the train split's last tasks, which the runs do not reach; the same tools stand before both answers of a pair. */
async function writePairs(base: string, file: string, { tasks: count, samples: groupSize }: VerifiedSize): Promise<void> {
  await using policy = await openPolicy(base, { train: { type: "none" }, maxRows: rollout.concurrency });
  const source = environment.tasks("train");
  const tasks = Array.from({ length: count }, (_, i) => source.at(source.size - 1 - i));
  const options = { ...rollout, policy, seed: 0, step: 0, stage: "train", groupSize, temperature: 1, deadlineSeconds: 600 } as const;
  const rows = pairsFromGroups(await collectGroups(environment, tasks, options), { perGroup: 3 });
  writeFileSync(file, `${rows.map((row) => JSON.stringify({ ...row, tools })).join("\n")}\n`);
}

interface Judge {
  readonly policy: OpenedPolicy;
  readonly members: Awaited<ReturnType<typeof loadRewardModel>>["members"];
}

/** The model's word beside the verifier's on the same answers. */
async function compare(answers: readonly Scored[], { policy: { engine, renderer }, members }: Judge): Promise<Compared> {
  const conversations = answers.map(({ trajectory }) => trajectory.messages);
  const scores = await scoreConversations(conversations, { engine, renderer, members, tools, normalise: true });
  const judged = answers.flatMap(({ trajectory, verdict }, i): JudgedAnswer[] => {
    const found = scores[i];
    return found === undefined ? [] : [{ name: trajectory.id, task: trajectory.task.id, score: found.score, verdict }];
  });
  const { disagreements, ...numbers } = agreement(judged, { worst: 4 });
  const meanOf = (right: boolean): number => {
    const own = judged.flatMap(({ score, verdict }) => (verdict.type === "scored" && verdict.score >= 1 === right ? [score] : []));
    return own.reduce((a, b) => a + b, 0) / own.length;
  };
  const textOf = (id: string): string => said(answers.find(({ trajectory }) => trajectory.id === id)!.trajectory.messages);
  return {
    ...numbers,
    ofRight: meanOf(true),
    ofWrong: meanOf(false),
    worst: disagreements.map(({ name, ...rest }) => ({ text: textOf(name), ...rest })),
  };
}

/** Question, calls with their results, and answer, on one line. */
function said(messages: readonly Message[]): string {
  return messages
    .flatMap(({ role, content, toolCalls = [] }) => {
      if (role === "system") return [];
      const calls = toolCalls.map((call) => JSON.stringify(call.arguments));
      return [...(content === "" ? [] : [role === "tool" ? `= ${content}` : content]), ...calls];
    })
    .join(" ");
}
