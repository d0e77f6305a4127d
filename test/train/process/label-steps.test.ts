import { expect, test } from "vitest";
import { lock, lockOf } from "../../../src/env/lock.ts";
import { ConfigError, scored } from "../../../src/errors.ts";
import { playEpisode } from "../../../src/loop/rollout/episode.ts";
import { scoreTrajectory } from "../../../src/loop/reward/score.ts";
import { defineEnv } from "../../../src/loop/rollout/tool-env.ts";
import { uniform } from "../../../src/random.ts";
import { labelSteps, stepRows, type LabelOptions } from "../../../src/train/process/label-steps.ts";
import type { Env, SampleRequest, Scored, Task } from "../../../src/types.ts";
import { scriptedPolicy, type ScriptedPolicy } from "../../fakes/scripted-policy.ts";

const limits = { temperature: 1, maxTokens: 32, maxTurns: 20, deadlineSeconds: 30 };
const address = { seed: 0, stage: "test", step: 0, sample: 0, repeat: 0 };
const coin = (request: SampleRequest): boolean => uniform(request.keys[0]!) < 0.5;

async function played(env: Env, task: Task, policy: ScriptedPolicy): Promise<Scored> {
  return scoreTrajectory(env.reward, await playEpisode(env, task, { ...limits, policy, address }));
}

/** Answers 1 or 2 by the toss of a coin. */
const tosser = (): ScriptedPolicy => scriptedPolicy((_turn, request) => (coin(request) ? "1" : "2"));
const options = (policy: ScriptedPolicy, rest: Partial<LabelOptions> = {}): LabelOptions => ({
  ...limits, policy, completions: 1, kind: "soft", steps: "turns", seed: 3, concurrency: 64, ...rest,
});

test("soft labels are the chance of success from each prefix, where that is known", async () => {
  // Three dials, two settings, one try. By coin from k dials set with no try used: 1/4 + 2 x 1/8 = 1/2 for the last two, and so on.
  const env = lock({ steps: 3, tries: 1 });
  const task = env.tasks("train").at(0);
  const { right } = lockOf(task);
  const whole = await played(env, task, scriptedPolicy((turn) => right[turn]!));
  const wrong = right[0] === "1" ? "2" : "1";
  const detour = await played(env, task, scriptedPolicy((turn) => [wrong, ...right][turn]!));
  const policy = tosser();
  const completions = 200;
  const [straight, around] = await labelSteps(env, [whole, detour], options(policy, { completions }));
  // n dials left, one try: (1/2)^n (all right) + n (1/2)^(n + 1) (one wrong, before the last right). n = 2: 1/4 + 1/4. n = 1: 1/2 + 1/4.
  const chances = { straight: [0.5, 0.75, 1], around: [1 / 8, 1 / 4, 1 / 2, 1] };
  // Three deviations of a mean of 200 tosses are at most 0.106.
  chances.straight.forEach((chance, k) => expect(Math.abs(straight!.labels[k]! - chance)).toBeLessThan(0.106));
  chances.around.forEach((chance, k) => expect(Math.abs(around!.labels[k]! - chance)).toBeLessThan(0.106));
  expect([straight!.labels.at(-1), around!.labels.at(-1)]).toEqual([1, 1]);
  // The last prefix is the whole episode and is not completed; every request gave two tokens.
  expect([straight!.completions, around!.completions]).toEqual([2 * completions, 3 * completions]);
  expect(straight!.sampledTokens + around!.sampledTokens).toBe(2 * policy.requests.length);
});

test("hard labels are 1 where any completion is right", async () => {
  const env = lock({ steps: 2, tries: 0 });
  const task = env.tasks("train").at(0);
  const { right } = lockOf(task);
  const failed = await played(env, task, scriptedPolicy((turn) => (turn === 0 ? right[0]! : right[1] === "1" ? "2" : "1")));
  expect(failed.verdict).toMatchObject({ score: 0 });
  const [labelled] = await labelSteps(env, [failed], options(tosser(), { completions: 20, kind: "hard" }));
  // Of 20 tosses for the second dial one is right, up to a chance of 1e-6; the whole episode failed.
  expect(labelled!.labels).toEqual([1, 0]);
  expect(labelled!.steps).toEqual([right[0], right[1] === "1" ? "2" : "1"]);
});

test("labels are a function of their seed, whatever the concurrency and whichever other episodes are labelled", async () => {
  const env = lock({ steps: 4, tries: 2 });
  const at = (index: number): Promise<Scored> => {
    const task = env.tasks("train").at(index);
    return played(env, task, scriptedPolicy((turn) => lockOf(task).right[turn]!));
  };
  const [one, two] = [await at(0), await at(1)];
  const labels = async (episodes: readonly Scored[], rest: Partial<LabelOptions>) =>
    (await labelSteps(env, episodes, options(tosser(), { completions: 8, ...rest }))).map((labelled) => labelled.labels);
  const both = await labels([one, two], { concurrency: 1 });
  expect(await labels([one, two], { concurrency: 32 })).toEqual(both);
  expect(await labels([two], { concurrency: 5 })).toEqual([both[1]]);
  expect(await labels([one, two], { seed: 4 })).not.toEqual(both);
});

test("steps between separators of one answer are completed inside the answer", async () => {
  const env = defineEnv({
    name: "two lines",
    tasks: { size: 1, at: () => ({ id: "t", prompt: [{ role: "user", content: "Go." }], data: {} }) },
    reward: ({ messages }) => scored(messages.at(-1)!.content.endsWith("good") ? 1 : 0, "ends with good"),
  });
  const task = env.tasks("train").at(0);
  const first = await played(env, task, scriptedPolicy(() => "one\ntwo\nbad"));
  const policy = scriptedPolicy((_turn, request) => (coin(request) ? "good" : "bad"));
  const [labelled] = await labelSteps(env, [first], options(policy, { completions: 200, steps: { separator: "\n" } }));
  expect(labelled!.steps).toEqual(["one\n", "two\n", "bad"]);
  expect(Math.abs(labelled!.labels[0]! - 0.5)).toBeLessThan(0.106);
  expect(Math.abs(labelled!.labels[1]! - 0.5)).toBeLessThan(0.106);
  expect(labelled!.labels[2]).toBe(0);
  const text = policy.renderer.tokenizer.decode([...policy.requests[0]!.prompt]);
  expect(text.endsWith("one\n")).toBe(true);
  expect(policy.renderer.tokenizer.decode([...policy.requests[200]!.prompt]).endsWith("one\ntwo\n")).toBe(true);
  const labels = labelled!.labels;
  expect(stepRows([labelled!], "\n")).toEqual([{ prompt: task.prompt, steps: ["one", "two", "bad"], labels }]);
});

test("rows of a dialogue carry the environment's answers, and end where a step could not be labelled", async () => {
  const env = lock({ steps: 2, tries: 0 });
  const task = env.tasks("train").at(0);
  const { right, shown } = lockOf(task);
  const whole = await played(env, task, scriptedPolicy((turn) => right[turn]!));
  const [labelled] = await labelSteps(env, [whole], options(scriptedPolicy(() => right[1]!)));
  const messages = [...task.prompt, { role: "assistant", content: right[0] }, { role: "user", content: `${shown[1]!} 0` }];
  expect(stepRows([labelled!], "\n")).toEqual([
    { messages: [...messages, { role: "assistant", content: right[1] }], labels: [1, 1] },
  ]);
  const mute: Env = { ...env, reward: () => ({ type: "unscorable", reason: "no gold" }) };
  const unscored: Scored = { ...whole, verdict: { type: "unscorable", reason: "no gold" } };
  const [none] = await labelSteps(mute, [unscored], options(tosser()));
  expect(none!.labels).toEqual([null, null]);
  expect(stepRows([none!], "\n")).toEqual([]);
});

test("what makes no sense is refused", async () => {
  const env = lock({ steps: 2, tries: 0 });
  const task = env.tasks("train").at(0);
  const whole = await played(env, task, scriptedPolicy((turn) => lockOf(task).right[turn]!));
  await expect(labelSteps(env, [whole], options(tosser(), { completions: 0 }))).rejects.toThrow(
    new ConfigError("labelSteps completions: expected an integer of at least 1, got 0"),
  );
  await expect(labelSteps(env, [whole], options(tosser(), { steps: { separator: "\n" } }))).rejects.toThrow(
    /expected one turn, to be cut at separators, got 2 turns; label a dialogue with steps: "turns"/,
  );
});
