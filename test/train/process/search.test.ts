import { expect, test } from "vitest";
import { lock, lockOf } from "../../../src/env/lock.ts";
import { integer } from "../../../src/random.ts";
import { beamSearch, bestOfN, type StepScorer } from "../../../src/train/process/search.ts";
import type { Env, Trajectory } from "../../../src/types.ts";
import { scriptedPolicy, type ScriptedPolicy } from "../../fakes/scripted-policy.ts";

const env = lock({ steps: 6, tries: 0 });
const task = env.tasks("train").at(2);
const { right } = lockOf(task);
const options = { seed: 1, temperature: 1, maxTokens: 8, maxTurns: 10, concurrency: 8, deadlineSeconds: 30 };
/** Answers at random. */
const random = (): ScriptedPolicy => scriptedPolicy((_turn, request) => String(1 + integer(request.keys[0]!, 2)));

/** Knows every dial: 0.9 for a right answer, 0.2 for a wrong one. */
const knowing: StepScorer = (trajectories) =>
  Promise.resolve(trajectories.map(({ turns }) => turns.map(({ message }, t) => (message.content === right[t] ? 0.9 : 0.2))));
const graded = (trajectory: Trajectory) => env.reward({ task, messages: trajectory.messages, turns: trajectory.turns });

const scorings = ["min", "product", "last"] as const;
test.each(scorings)("a beam that is judged rightly (%s) opens a lock that chance opens once in 64", async (how) => {
  const policy = random();
  const found = await beamSearch(env, task, { ...options, policy, score: knowing, how, width: 2, expand: 4 });
  expect(graded(found.trajectory)).toMatchObject({ score: 1 });
  expect(found.score).toBeCloseTo(how === "product" ? 0.9 ** 6 : 0.9, 12);
  expect(found.sampledTokens).toBe(2 * policy.requests.length);
  // Eight first turns, then at most two beginnings with four turns each.
  expect(policy.requests.length).toBeLessThanOrEqual(8 + 5 * 8);
});

test("the best of n by its weakest step is not the one by its last", async () => {
  // Three episodes of two turns by hand: weakest 0.5, 0.1, 0.4; products 0.25, 0.1, 0.36; last 0.5, 1, 0.4.
  const short = lock({ steps: 2, tries: 2 });
  const one = short.tasks("train").at(0);
  const byHand: StepScorer = (trajectories) => Promise.resolve(trajectories.map((_, i) => [[0.5, 0.5], [0.1, 1], [0.9, 0.4]][i]!));
  const best = async (how: "min" | "product" | "last") => {
    const policy = scriptedPolicy((_turn, request) => lockOf(one).right[request.prompt.length < 120 ? 0 : 1]!);
    const { trajectory, score, sampledTokens } = await bestOfN(short, one, { ...options, policy, score: byHand, how, n: 3 });
    expect(sampledTokens).toBe(2 * policy.requests.length);
    return [trajectory.sample, score];
  };
  expect(await best("min")).toEqual([0, 0.5]);
  expect((await best("product"))[0]).toBe(2);
  expect(await best("last")).toEqual([1, 1]);
});

test("of equals the first is taken; a beam of one with one turn each is a plain episode", async () => {
  const same: StepScorer = (trajectories) => Promise.resolve(trajectories.map(({ turns }) => turns.map(() => 0.5)));
  const first = await bestOfN(env, task, { ...options, policy: random(), score: same, how: "min", n: 4 });
  expect(first.trajectory.sample).toBe(0);
  const policy = random();
  const plain = await beamSearch(env, task, { ...options, policy, score: same, how: "last", width: 1, expand: 1 });
  expect(plain.trajectory.end.type).toBe("done");
  expect(policy.requests.length).toBe(plain.trajectory.turns.length);
});

test("an ended beginning keeps its place against ones that go on", async () => {
  // A wrong answer ends the episode; a scorer that loves endings keeps it over all that follow.
  const lovesEndings: StepScorer = (trajectories) =>
    Promise.resolve(trajectories.map(({ end, turns }) => turns.map(() => (end.type === "done" ? 1 : 0.5))));
  const found = await beamSearch(env, task, { ...options, policy: random(), score: lovesEndings, how: "last", width: 2, expand: 4 });
  expect([found.trajectory.end.type, found.score]).toEqual(["done", 1]);
  expect(graded(found.trajectory)).toMatchObject({ score: 0 });
});

test("episodes that failed are nothing to choose from; if all did, the reason is told", async () => {
  let count = 0;
  const shaky = (every: number): Env => ({
    ...env,
    start: (it) => (count++ % every === 0 ? fail() : env.start(it)),
  });
  const fail = (): never => {
    throw new Error("no room");
  };
  const found = await bestOfN(shaky(2), task, { ...options, concurrency: 1, policy: random(), score: knowing, how: "min", n: 2 });
  expect(found.trajectory.sample).toBe(1);
  const all = bestOfN(shaky(1), task, { ...options, policy: random(), score: knowing, how: "min", n: 2 });
  await expect(all).rejects.toThrow(/expected an episode that ran, got environment: no room/);
  await expect(bestOfN(env, task, { ...options, policy: random(), score: knowing, how: "min", n: 0 })).rejects.toThrow(/bestOfN n/);
});
