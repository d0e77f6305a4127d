/** Prompt, rollout and reward of one step: every task's samples, graded; one faulty member never stops the others. */
import { playEpisode, type Policy } from "../loop/rollout/episode.ts";
import type { CompactionOptions } from "../loop/rollout/compaction.ts";
import { Lockstep } from "../loop/rollout/lockstep.ts";
import { runPool } from "../loop/rollout/pool.ts";
import { scoreTrajectory } from "../loop/reward/score.ts";
import { scoresOf, zeroVariance } from "../loop/advantage/group.ts";
import { tasksOfStep } from "../loop/prompt/order.ts";
import type { Algorithm, Env, Group, Reward, Scored, Task } from "../types.ts";

export interface CollectOptions extends CompactionOptions {
  readonly seed: number;
  /** What the samples are for; a part of their random address. */
  readonly stage: "train" | "heldout" | "greedy";
  readonly step: number;
  readonly groupSize: number;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly maxTurns: number;
  readonly concurrency: number;
  readonly deadlineSeconds: number;
  /** "lockstep": turns are sampled together, so that the result does not depend on how long tools take. */
  readonly pace?: "free" | "lockstep";
  readonly signal?: AbortSignal;
  /** Grades in place of the environment's reward. */
  readonly reward?: Reward;
  /** Tasks that were played before under the same address: one that comes again gets random numbers of its own. */
  readonly earlier?: readonly Task[];
  /** Called after each graded rollout. */
  readonly onRollout?: (done: number, total: number) => void;
}

/** `groupSize` graded rollouts of every task, in the order of the tasks. */
export async function collectGroups(
  env: Env,
  tasks: readonly Task[],
  { policy, ...options }: CollectOptions & { readonly policy: Policy },
): Promise<Group[]> {
  const { groupSize, seed, stage, step, earlier = [] } = options;
  const total = tasks.length * groupSize;
  let done = 0;
  const together = options.pace === "lockstep" ? new Lockstep() : undefined;
  const jobs = tasks.flatMap((task, place) => {
    const repeat = [...earlier, ...tasks.slice(0, place)].filter(({ id }) => id === task.id).length;
    return Array.from({ length: groupSize }, (_, sample) => async (signal: AbortSignal): Promise<Scored> => {
      const address = { seed, stage, step, sample, repeat };
      const play = async (player: Policy): Promise<Scored> => {
        const episode = { ...options, address, signal };
        const played = await (player.play?.(task, episode) ?? playEpisode(env, task, { ...episode, policy: player }));
        const { trajectory, verdict } = "trajectory" in played ? played : { trajectory: played };
        return verdict === undefined ? scoreTrajectory(options.reward ?? env.reward, trajectory, { signal }) : { trajectory, verdict };
      };
      const scored = await (together === undefined ? play(policy) : together.run(place * groupSize + sample, policy, play));
      options.onRollout?.(++done, total);
      return scored;
    });
  });
  const members = await runPool(jobs, options);
  return tasks.map((task, i) => ({ task, members: members.slice(i * groupSize, (i + 1) * groupSize) }));
}

/** What one training step sampled. */
export interface CollectedStep {
  /** The groups that are trained on. */
  readonly groups: readonly Group[];
  /** Groups without signal whose places others took; they are recorded and counted, and train nothing. */
  readonly replaced: readonly Group[];
  /** Every task that was sampled, in the order in which it was. */
  readonly tasks: readonly Task[];
}

export type StepOptions = Omit<CollectOptions, "stage" | "groupSize" | "earlier"> & {
  readonly policy: Policy;
  readonly algorithm: Pick<Algorithm, "groupSize" | "resampleRounds" | "needs">;
  readonly tasksPerStep: number;
};

/**
 * The groups of a training step. Where the algorithm asks for it, groups without signal are replaced, round by round, by groups of
 * further tasks; these come from a sequence of their own, so that the next step's tasks are the same whatever was replaced.
 */
export async function collectStep(env: Env, options: StepOptions): Promise<CollectedStep> {
  const { algorithm, tasksPerStep: count, seed, step } = options;
  const { groupSize, resampleRounds: rounds = 0 } = algorithm;
  const source = env.tasks("train");
  const tasks = tasksOfStep(source, { seed, step, count });
  const groups = await collectGroups(env, tasks, { ...options, stage: "train", groupSize });
  const replaced: Group[] = [];
  for (let round = 1; round <= rounds; round++) {
    const places = groups.flatMap((group, i) => (hasSignal(group) ? [] : [i]));
    if (places.length === 0) break;
    const spare = tasksOfStep(source, { seed, step: (step - 1) * rounds + round, count, stream: "spare tasks" });
    const known = new Set(tasks.map(({ id }) => id));
    const next = [...spare.filter(({ id }) => !known.has(id)), ...spare.filter(({ id }) => known.has(id))].slice(0, places.length);
    const found = await collectGroups(env, next, { ...options, stage: "train", groupSize, earlier: tasks });
    tasks.push(...next);
    places.forEach((place, i) => replaced.push(...groups.splice(place, 1, found[i]!)));
  }
  return { groups: await withGreedy(env, groups, options), replaced, tasks };
}

const hasSignal = ({ members }: Group): boolean => !zeroVariance(scoresOf(members.map(({ verdict }) => verdict)));

/** The policy's most likely answer to each task, where the algorithm compares with it. */
async function withGreedy(env: Env, groups: readonly Group[], options: StepOptions): Promise<readonly Group[]> {
  if (options.algorithm.needs?.includes("greedy") !== true) return groups;
  const tasks = groups.map(({ task }) => task);
  const answers = await collectGroups(env, tasks, { ...options, stage: "greedy", groupSize: 1, temperature: 0 });
  return groups.map((group, i) => ({ ...group, greedy: answers[i]!.members[0]! }));
}
