/** Prompt, rollout and reward of one step: every task's samples, graded; one faulty member never stops the others. */
import { playEpisode, type Policy } from "../loop/rollout/episode.ts";
import { Lockstep } from "../loop/rollout/lockstep.ts";
import { runPool } from "../loop/rollout/pool.ts";
import { scoreTrajectory } from "../loop/reward/score.ts";
import type { Env, Group, Scored, Task } from "../types.ts";

export interface CollectOptions {
  readonly seed: number;
  /** What the samples are for; a part of their random address. */
  readonly stage: "train" | "heldout";
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
  /** Called after each graded rollout. */
  readonly onRollout?: (done: number, total: number) => void;
}

/** `groupSize` graded rollouts of every task, in the order of the tasks. */
export async function collectGroups(
  env: Env,
  tasks: readonly Task[],
  { policy, ...options }: CollectOptions & { readonly policy: Policy },
): Promise<Group[]> {
  const { groupSize, seed, stage, step } = options;
  const total = tasks.length * groupSize;
  let done = 0;
  const together = options.pace === "lockstep" ? new Lockstep() : undefined;
  const jobs = tasks.flatMap((task, place) => {
    const repeat = tasks.slice(0, place).filter(({ id }) => id === task.id).length;
    return Array.from({ length: groupSize }, (_, sample) => async (signal: AbortSignal): Promise<Scored> => {
      const address = { seed, stage, step, sample, repeat };
      const play = async (player: Policy): Promise<Scored> => {
        const trajectory = await playEpisode(env, task, { ...options, policy: player, address, signal });
        return scoreTrajectory(env.reward, trajectory, { signal });
      };
      const scored = await (together === undefined ? play(policy) : together.run(place * groupSize + sample, policy, play));
      options.onRollout?.(++done, total);
      return scored;
    });
  });
  const members = await runPool(jobs, options);
  return tasks.map((task, i) => ({ task, members: members.slice(i * groupSize, (i + 1) * groupSize) }));
}
