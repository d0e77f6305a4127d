import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Policy } from "../../../src/loop/rollout/episode.ts";
import { Lockstep } from "../../../src/loop/rollout/lockstep.ts";
import { runPool } from "../../../src/loop/rollout/pool.ts";
import type { SampleRequest } from "../../../src/types.ts";
import { scriptedPolicy } from "../../fakes/scripted-policy.ts";

const request = (prompt: readonly number[], signal?: AbortSignal): SampleRequest => ({
  prompt, count: 1, maxTokens: 4, temperature: 1, stopIds: [], keys: [{ hi: 0, lo: 0 }], ...(signal === undefined ? {} : { signal }),
});

/** Job i plays turns[i] turns, each after a wait that `delays` says; returns the rounds in which the policy was asked, by job. */
async function rounds(turns: readonly number[], concurrency: number, delays: readonly number[]): Promise<number[][]> {
  const asked: number[][] = [];
  let round: number[] | undefined;
  const policy = scriptedPolicy((_, { prompt }) => {
    if (round === undefined) {
      asked.push((round = []));
      setImmediate(() => (round = undefined));
    }
    round.push(prompt[0]!);
    return "yes";
  });
  const together = new Lockstep();
  let n = 0;
  const play = (job: number) => async (player: Policy): Promise<void> => {
    for (let turn = 0; turn < turns[job]!; turn++) {
      await wait(delays[n++ % delays.length]);
      await player.engine.sample(request([job]));
    }
    await wait(delays[n++ % delays.length]); // grading takes its time, too
  };
  await runPool(turns.map((_, job) => () => together.run(job, policy, play(job))), { concurrency });
  return asked;
}

test("turns come in rounds, in the order of the jobs, whatever the environment's answers take", async () => {
  // Three at a time: job 1 ends after the first round, so job 3 is in from the second on; jobs 0 and 2 end after it, 3 goes on alone.
  const wanted = [[0, 1, 2], [0, 2, 3], [3], [3]];
  for (const delays of [[0], [9, 1, 5], [1, 2, 3, 4, 5, 6, 7], [12, 0]]) {
    expect(await rounds([2, 1, 2, 3], 3, delays)).toEqual(wanted);
  }
});

test("an episode that is aborted while it waits leaves; the others go on", async () => {
  const policy = scriptedPolicy(() => "yes");
  const together = new Lockstep();
  const stop = new AbortController();
  const ask = (prompt: number, signal?: AbortSignal) => (player: Policy) => player.engine.sample(request([prompt], signal));
  const first = together.run(0, policy, ask(0, stop.signal));
  const second = together.run(1, policy, async (player) => {
    await wait(20);
    return ask(1)(player);
  });
  stop.abort(new Error("enough"));
  await expect(first).rejects.toThrow("enough");
  expect((await second).length).toBe(1);
  await expect(together.run(2, policy, ask(2, stop.signal))).rejects.toThrow("enough");
  expect(policy.requests.map(({ prompt }) => prompt[0])).toEqual([1]);
});
