import { expect, test } from "vitest";
import { lock, lockOf } from "../../../src/env/lock.ts";
import { exactText } from "../../../src/loop/reward/verifiers/exact-text.ts";
import { playEpisode, type EpisodePrefix } from "../../../src/loop/rollout/episode.ts";
import { defineEnv } from "../../../src/loop/rollout/tool-env.ts";
import type { Env, Trajectory } from "../../../src/types.ts";
import { scriptedPolicy, type ScriptedPolicy } from "../../fakes/scripted-policy.ts";

const limits = { temperature: 1, maxTokens: 16, maxTurns: 20, deadlineSeconds: 30 };
const address = { seed: 0, stage: "test", step: 0, sample: 0, repeat: 0 };
const env = lock({ steps: 4, tries: 2 });
const task = env.tasks("train").at(1);
const { right } = lockOf(task);
const other = (answer: string): string => (answer === "1" ? "2" : "1");
const play = (policy: ScriptedPolicy, from?: EpisodePrefix): Promise<Trajectory> =>
  playEpisode(env, task, { ...limits, policy, address, ...(from === undefined ? {} : { from }) });

test("an episode goes on from its first turns: the tokens are kept, the environment has heard them, only the rest is sampled", async () => {
  const whole = await play(scriptedPolicy((turn) => [other(right[0]!), ...right][turn]!));
  expect([whole.end.type, whole.measures["dialsSet"]]).toEqual(["done", 4]);
  // Go on after two turns (one wrong, one right) and answer the other three dials.
  const policy = scriptedPolicy((turn) => right.slice(1)[turn]!);
  const again = await play(policy, { trajectory: whole, turns: 2 });
  expect(policy.requests.length).toBe(3);
  expect(again.rows).toEqual(whole.rows);
  expect(again.measures).toMatchObject({ dialsSet: 4, wrongAnswers: 1, turns: 5, sampledTokens: 6 });
  // The first request's prompt is what stood before the third sampled turn.
  const before = whole.rows[0]!.spans.slice(0, 5).flatMap(({ ids }) => ids);
  expect(policy.requests[0]!.prompt).toEqual(before);
});

test("another ending of the same beginning", async () => {
  const whole = await play(scriptedPolicy((turn) => right[turn]!));
  const wrong = await play(scriptedPolicy(() => other(right[2]!)), { trajectory: whole, turns: 2 });
  expect(wrong.measures).toMatchObject({ dialsSet: 2, wrongAnswers: 3, sampledTokens: 6 });
  expect(wrong.turns.slice(0, 2)).toEqual(whole.turns.slice(0, 2));
});

test("a turn goes on from its first tokens, which count in its limit and keep their log-probs", async () => {
  const plain = defineEnv({ name: "plain", tasks: { size: 1, at: () => task }, reward: exactText({ gold: "x" }) });
  const first = scriptedPolicy(() => "one two");
  const whole = await playEpisode(plain, task, { ...limits, policy: first, address });
  const kept = first.encode("one two").slice(0, 2);
  const policy = scriptedPolicy(() => " three");
  const again = await playEpisode(plain, task, { ...limits, policy, address, from: { trajectory: whole, turns: 0, tokens: 2 } });
  const span = again.rows[0]!.spans[1]!;
  if (span.kind !== "sampled") throw new Error("expected a sampled span");
  const rest = [...policy.encode(" three"), policy.end];
  expect(span.ids).toEqual([...kept, ...rest]);
  expect(span.logprobs).toEqual([-1 / 8, -2 / 8, ...rest.map((_, t) => -(t + 1) / 8)]);
  expect(policy.requests[0]).toMatchObject({ maxTokens: 14 });
  expect(policy.requests[0]!.prompt.slice(-2)).toEqual(kept);
  expect(again.measures["sampledTokens"]).toBe(rest.length);
});

test("an environment that answers otherwise the second time ends the episode with what differs", async () => {
  let count = 0;
  const restless: Env = {
    ...env,
    start: (one) => ({ ...env.start(one), step: async () => ({ messages: [{ role: "user", content: `now ${count++}` }], done: false }) }),
  };
  const policy = scriptedPolicy(() => "1");
  const whole = await playEpisode(restless, task, { ...limits, maxTurns: 2, policy, address });
  const again = await playEpisode(restless, task, { ...limits, policy, address, from: { trajectory: whole, turns: 1 } });
  expect(again.end).toMatchObject({ type: "error", boundary: "environment" });
  const said = again.end.type === "error" && again.end.message;
  expect(said).toMatch(/replay of a turn: expected .*now 0.* got .*now 2.*; only an environment/);
});

test("a prefix longer than the episode is refused", async () => {
  const whole = await play(scriptedPolicy((turn) => right[turn]!));
  const short = { ...whole, turns: whole.turns.slice(0, 1) };
  const beyond = play(scriptedPolicy(() => "1"), { trajectory: short, turns: 2 });
  await expect(beyond).rejects.toThrow(/a sampled turn 2 to go on from, got 1 turns/);
});
