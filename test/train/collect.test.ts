import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { grpo } from "../../src/algo/grpo.ts";
import { PolicyError, scored } from "../../src/errors.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { plainContext } from "../fakes/credit.ts";
import { runPool } from "../../src/loop/rollout/pool.ts";
import { defineEnv } from "../../src/loop/rollout/tool-env.ts";
import { defineTool } from "../../src/loop/rollout/tools.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { signalOf } from "../../src/train/signal.ts";
import type { Env, Reward, Task, Tool, Verdict } from "../../src/types.ts";
import { scriptedPolicy } from "../fakes/scripted-policy.ts";

const options = {
  seed: 0, stage: "train", step: 1, groupSize: 4, temperature: 1, maxTokens: 64, maxTurns: 4, concurrency: 64, deadlineSeconds: 1.5,
} as const;
const taskOf = (id: string): Task => ({ id, prompt: [{ role: "user", content: id }], data: {} });
const envOf = (reward: Reward, tools: readonly Tool[] = []): Env =>
  defineEnv({ name: "test", tasks: { size: 1, at: () => taskOf("t") }, tools, reward, limits: { deadlineMs: 60_000 } });

test("one that hangs, one whose grader throws and a slow one: the step goes on with who is there, one result each", async () => {
  const stuck = defineTool({
    name: "wait",
    description: "Waits.",
    parameters: z.strictObject({}),
    run: () => new Promise<string>(() => undefined),
  });
  const says = ['<tool_call>\n{"name": "wait", "arguments": {}}\n</tool_call>', "crash", "slow", "right"];
  const policy = scriptedPolicy(async (turn) => {
    if (turn === 2) await pause(100);
    return says[turn]!;
  });
  const env = envOf(({ messages }) => {
    const answer = messages.at(-1)!.content;
    if (answer === "crash") throw new Error("the grader crashed");
    return scored(answer === "right" ? 1 : 0, answer);
  }, [stuck]);
  const started = performance.now();
  const done: number[] = [];
  const [group] = await collectGroups(env, [taskOf("t")], { ...options, policy, onRollout: (count) => done.push(count) });
  expect(performance.now() - started).toBeLessThan(5000);
  const members = group!.members;
  expect(members.map(({ verdict }) => verdict.type)).toEqual(["infrastructure", "infrastructure", "scored", "scored"]);
  expect(members[0]!.trajectory.end).toEqual({ type: "timeout" });
  expect(members[1]!.verdict).toEqual({ type: "infrastructure", reason: "grader: the grader crashed" });
  expect(new Set(members.map(({ trajectory }) => trajectory.id)).size).toBe(4);
  expect(done).toEqual([1, 2, 3, 4]);
  expect(signalOf([group!])).toMatchObject({ unscorable: 0.5, reward: 0.5, fracZeroStd: 0 });
  const credits = grpo({ groupSize: 4, scale: "none" }).credit([group!], plainContext);
  expect(credits[0]!.map((credit) => credit?.advantages[0]![0] ?? null)).toEqual([null, null, -0.5, 0.5]);
  const { batch, completions } = buildBatch(credits, { reduction: "token-mean", maskTruncated: false, maxLength: 64, skipZero: true });
  expect([completions, batch!.units[0]!.rows.length]).toEqual([2, 2]);
});

test.each<[string, () => unknown, RegExp]>([
  ["a number instead of a verdict", () => 1, /^grader: reward: expected a verdict, got 1; return scored/],
  ["nothing", () => undefined, /^grader: reward: expected a verdict, got undefined/],
  [
    "text as a score",
    () => ({ type: "scored", score: "1", components: {}, explanation: "" }),
    /^grader: reward score: expected a finite number, got string 1/,
  ],
  ["true as a score", () => ({ type: "scored", score: true, components: {}, explanation: "" }), /got boolean true/],
  ["NaN", () => ({ type: "scored", score: NaN, components: {}, explanation: "" }), /got number NaN/],
  [
    "an infinite part",
    () => ({ type: "scored", score: 1, components: { a: Infinity }, explanation: "" }),
    /reward component a: .* got number Infinity/,
  ],
])("a grader that returns %s is at fault; that is no score of 0", async (_what, verdict, reason) => {
  const env = envOf(() => verdict() as Verdict);
  const [group] = await collectGroups(env, [taskOf("t")], { ...options, groupSize: 1, policy: scriptedPolicy(() => "a") });
  const given = group!.members[0]!.verdict;
  expect(given.type === "infrastructure" && reason.test(given.reason), JSON.stringify(given)).toBe(true);
});

test("a task that comes twice in one step is two groups with samples and ids of their own", async () => {
  const policy = scriptedPolicy(() => "a");
  const tasks = [taskOf("t"), taskOf("u"), taskOf("t")];
  const groups = await collectGroups(envOf(() => scored(1, "")), tasks, { ...options, groupSize: 2, policy });
  const ids = groups.flatMap(({ members }) => members.map(({ trajectory }) => trajectory.id));
  expect(ids).toEqual(["train-1/t/0", "train-1/t/1", "train-1/u/0", "train-1/u/1", "train-1/t+1/0", "train-1/t+1/1"]);
  expect(new Set(policy.requests.map(({ keys }) => JSON.stringify(keys))).size).toBe(6);
});

test("a fault of the policy stops the others, and is thrown when they have ended", async () => {
  let running = 0;
  const policy = scriptedPolicy(async (turn, { signal }) => {
    running++;
    try {
      if (turn === 1) throw new PolicyError("sample: broken");
      await pause(60_000, undefined, { signal: signal! });
      return "a";
    } finally {
      running--;
    }
  });
  const collecting = collectGroups(envOf(() => scored(1, "")), [taskOf("t")], { ...options, deadlineSeconds: 60, policy });
  await expect(collecting).rejects.toThrow("sample: broken");
  expect(running).toBe(0);
});

test("an abort does not wait for a grader", async () => {
  const controller = new AbortController();
  const env = envOf(() => {
    setTimeout(() => controller.abort(new Error("enough")), 10);
    return new Promise(() => undefined);
  });
  const started = performance.now();
  const collecting = collectGroups(env, [taskOf("t")], { ...options, policy: scriptedPolicy(() => "a"), signal: controller.signal });
  await expect(collecting).rejects.toThrow("enough");
  expect(performance.now() - started).toBeLessThan(2000);
});

test("a pool runs so many jobs at once and no more, and returns in order", async () => {
  let [running, most] = [0, 0];
  const jobs = Array.from({ length: 9 }, (_, i) => async () => {
    most = Math.max(most, ++running);
    await pause((i * 7) % 5);
    running--;
    return i;
  });
  expect(await runPool(jobs, { concurrency: 3 })).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  expect(most).toBe(3);
  expect(await runPool([], { concurrency: 3 })).toEqual([]);
});
