/** Tools that answer when they like: which episodes are sampled side by side differs from run to run, and nothing of it may show. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { desk } from "../../src/env/desk.ts";
import { rng, uniform } from "../../src/random.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { train, type TrainOptions } from "../../src/train/train.ts";
import type { Env } from "../../src/types.ts";
import { temporaryFolder } from "../fakes/model-folders.ts";

/** The desk, where the n-th answer to a turn comes after a wait of up to 40 ms that only `pace` and n decide. */
function slowDesk(pace: number): Env {
  const env = desk();
  let turn = 0;
  return {
    ...env,
    start: (task) => {
      const episode = env.start(task);
      return {
        step: async (given, signal) => {
          await wait(40 * uniform(rng(pace, "wait"), turn++));
          return episode.step(given, signal);
        },
        measures: () => episode.measures(),
        [Symbol.asyncDispose]: () => episode[Symbol.asyncDispose](),
      };
    },
  };
}

const config = {
  name: "slow",
  model: { path: "models/desk-1m", adapter: "full" },
  algo: { name: "grpo", groupSize: 4 },
  rollout: { tasksPerStep: 3, maxTokens: 48, maxTurns: 4, concurrency: 8, pace: "lockstep" },
  optim: { learningRate: 2e-4 },
  train: { steps: 3, evalEvery: 0, checkpointEvery: 1 },
} as const;

/** Ids, log-probs, texts, verdicts and advantages of every rollout. */
async function rolloutsOf(folder: string) {
  const rollouts = [];
  for (const { step } of (await readRun(folder)).ledger) {
    for (const { scored, credit } of await readTrajectories(folder, "step", step)) {
      const { measures, ...trajectory } = scored.trajectory;
      const counted = Object.entries(measures).filter(([name]) => !name.startsWith("seconds/"));
      rollouts.push({ verdict: scored.verdict, advantages: credit?.advantages, counted, trajectory: { ...trajectory, seconds: 0 } });
    }
  }
  return rollouts;
}

test("stopped, resumed and answered at another pace: bitwise the run that was never stopped", { timeout: 300_000 }, async () => {
  const folder = await temporaryFolder();
  const run = (name: string, pace: number, options: TrainOptions = {}) =>
    train(config, { env: slowDesk(pace), runsFolder: join(folder, name), ...options });
  const whole = await run("whole", 1);
  const stop = new AbortController();
  const observer = { onStep: ({ step }: { step: number }) => step === 2 && stop.abort(new Error("enough")) };
  await expect(run("stopped", 2, { observer, signal: stop.signal })).rejects.toThrow("enough");
  const resumed = await run("stopped", 3, { resume: true });

  const [left, right] = [await rolloutsOf(resumed.folder), await rolloutsOf(whole.folder)];
  expect(right.length).toBe(36);
  expect(right.filter(({ trajectory }) => trajectory.turns.length > 1).length).toBeGreaterThan(9);
  for (const [i, rollout] of right.entries()) expect(left[i], rollout.trajectory.id).toEqual(rollout);
  expect((await readRun(resumed.folder)).ledger).toEqual((await readRun(whole.folder)).ledger);
  for (const file of ["weights.safetensors", "moments.safetensors", "state.json"]) {
    const bytes = (of: string): Buffer => readFileSync(join(of, "checkpoints", "step-000003", file));
    expect(bytes(resumed.folder).equals(bytes(whole.folder)), file).toBe(true);
  }
});
