import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { scored, ToolUnavailableError } from "../../../src/errors.ts";
import { isTruncated } from "../../../src/loop/batch/rows.ts";
import { scoreTrajectory } from "../../../src/loop/reward/score.ts";
import { playEpisode } from "../../../src/loop/rollout/episode.ts";
import { playScripted } from "../../../src/loop/rollout/scripted.ts";
import { defineEnv, type EnvDefinition } from "../../../src/loop/rollout/tool-env.ts";
import { defineTool, runToolCalls } from "../../../src/loop/rollout/tools.ts";
import { decodeRollout, encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import type { Message, Task, Tool } from "../../../src/types.ts";
import { scriptedPolicy } from "../../fakes/scripted-policy.ts";

const task: Task = { id: "t", prompt: [{ role: "user", content: "Count." }], data: {} };
const tool = (name: string, run: () => Promise<string> | string, more: Partial<Tool> = {}): Tool => ({
  ...defineTool({ name, description: "", parameters: z.strictObject({}), run }),
  ...more,
});
const make = (tools: readonly Tool[], limits: EnvDefinition["limits"]) =>
  defineEnv({ name: "e", tasks: () => ({ size: 1, at: () => task }), tools, reward: () => scored(0, ""), limits: limits ?? {} });
const calls = (...names: string[]): Message => ({
  role: "assistant",
  content: "",
  toolCalls: names.map((name, i) => ({ id: String(i), name, arguments: {} })),
});
const say = (content: string): Message => ({ role: "assistant", content });
const results = (messages: readonly Message[]): string[] => messages.filter(({ role }) => role === "tool").map(({ content }) => content);
const yes = tool("yes", () => "yes");

test("calls: told once; an answer then ends the episode as done", async () => {
  const env = make([yes], { toolCalls: 2 });
  const played = await playScripted(env, task, [calls("yes", "yes", "yes"), say("3")]);
  const spent = "error: not run: the 2 tool calls of this task are used up; answer without tools";
  expect(results(played.messages)).toEqual(["yes", "yes", spent]);
  expect(played.done).toBe(true);
  expect(played.measures).toMatchObject({ "tools/calls": 3, "tools/notRun": 1, "tools/spent": 1, "tools/errors": 0 });
  const enough = await playScripted(env, task, [calls("yes", "yes"), say("2")]);
  expect(enough.measures).toMatchObject({ "tools/spent": 0 });
});

test("going on cuts the episode, and nothing is run any more", async () => {
  let runs = 0;
  const count = tool("count", () => String(++runs));
  const env = make([count], { toolCalls: 1 });
  const played = await playScripted(env, task, [calls("count"), calls("count"), calls("count"), say("never reached")]);
  expect([runs, played.done, played.turns.length]).toEqual([1, false, 3]);
  const episode = env.start(task);
  const turn = { row: -1, span: -1, message: calls("count"), parse: "toolCalls" as const, replies: [] };
  const signal = new AbortController().signal;
  const steps = [await episode.step(turn, signal), await episode.step(turn, signal), await episode.step(turn, signal)];
  expect(steps.map(({ done, limit }) => [done, limit])).toEqual([[false, undefined], [false, undefined], [false, "toolBudget"]]);
  await expect(episode.step(turn, signal)).rejects.toThrow(/after the end/);
});

test("cost: a price, or a function of the result; a failed call costs its price and no more", async () => {
  const fixed = tool("fixed", () => "a", { cost: 0.25 });
  const fails = tool("fails", () => Promise.reject(new Error("no")), { cost: 0.5 });
  const long = tool("long", () => "abcd", { cost: (result) => result.length / 4 });
  const broken = tool("broken", () => "x", { cost: () => Number.NaN });
  const env = make([fixed, fails, long], { toolCost: 1.5 });
  const played = await playScripted(env, task, [calls("fixed", "long", "fails", "fixed"), say("")]);
  // 0.25 + 1 + 0.5 = 1.75: the third was begun at 1.25, the fourth refused.
  expect(results(played.messages).at(-1)).toBe(
    "error: not run: the 1.5 that tools may cost in this task are used up; answer without tools",
  );
  expect(played.measures["tools/cost"]).toBe(1.75);
  expect((await playScripted(make([yes], {}), task, [say("")])).measures).not.toHaveProperty("tools/cost");
  const bad = await playScripted(make([broken], {}), task, [calls("broken"), say("")]);
  expect(results(bad.messages)).toEqual(["error: tool broken: cost: expected a finite number of at least 0, got NaN"]);
});

test("seconds: the last call is stopped when they are over", async () => {
  const slow = tool("slow", () => wait(5000, "late"));
  const played = await playScripted(make([slow], { toolSeconds: 0.05 }), task, [calls("slow", "slow"), say("")]);
  const [first, second] = results(played.messages);
  expect(first).toBe("error: slow took longer than 50 ms and was stopped");
  expect(second).toBe("error: not run: the 0.05 seconds for tools of this task are used up; answer without tools");
  expect(played.measures["seconds/tools"]).toBeGreaterThan(0.045);
  expect(played.measures["seconds/tools"]).toBeLessThan(2);
  expect(() => make([], { toolSeconds: 0 })).toThrow("tool limit toolSeconds: expected a positive number, got 0");
  expect(() => make([], { toolCalls: -1 })).toThrow(/toolCalls/);
});

test("calls that only read run at the same time, others alone and in order", async () => {
  let running = 0;
  const log: string[] = [];
  const timed = (name: string, readOnly: boolean): Tool =>
    tool(name, async () => {
      running++;
      log.push(`${name}${running}`);
      await wait(10);
      running--;
      return name;
    }, { readOnly });
  const scope = { task, state: new Map(), signal: new AbortController().signal };
  const wanted = calls("r", "r", "w", "r", "w", "w").toolCalls!;
  const { messages, records } = await runToolCalls([timed("r", true), timed("w", false)], wanted, scope);
  expect(log).toEqual(["r1", "r2", "w1", "r1", "w1", "w1"]);
  expect(messages.map(({ content }) => content)).toEqual(["r", "r", "w", "r", "w", "w"]);
  expect(records.map(({ call }) => call.name)).toEqual(["r", "r", "w", "r", "w", "w"]);
});

test("what a tool stands on is gone: the episode is an infrastructure failure and never a score", async () => {
  const gone = tool("gone", () => Promise.reject(new ToolUnavailableError("server down")));
  await expect(playScripted(make([gone], {}), task, [calls("gone"), say("")])).rejects.toThrow("server down");
  const hung = tool("hung", () => new Promise<string>(() => undefined), {
    probe: () => Promise.reject(new ToolUnavailableError("no answer to a ping")),
  });
  await expect(playScripted(make([hung], { deadlineMs: 10 }), task, [calls("hung")])).rejects.toThrow("no answer to a ping");
  const slow = tool("slow", () => new Promise<string>(() => undefined), { probe: () => Promise.resolve() });
  const told = await playScripted(make([slow], { deadlineMs: 10 }), task, [calls("slow"), say("")]);
  expect(results(told.messages)).toEqual(["error: slow took longer than 10 ms and was stopped"]);
});

test("what a tool keeps in the state is closed with the episode, even if one of them fails to", async () => {
  const closed: string[] = [];
  const env = make(
    [
      {
        ...yes,
        run: (_, { state }) => {
          for (const name of ["a", "b"])
            state.set(name, {
              [Symbol.asyncDispose]: () => {
                closed.push(name);
                return Promise.reject(new Error(name));
              },
            });
          state.set("plain", 3);
          return "yes";
        },
      },
    ],
    {},
  );
  await playScripted(env, task, [calls("yes"), say("")]);
  expect(closed).toEqual(["a", "b"]);
});

test("in a rollout: a spent budget is a truncation that is graded, a tool that is gone is not graded", async () => {
  const call = (name: string): string => `<tool_call>\n{"name": "${name}", "arguments": {}}\n</tool_call>`;
  const address = { seed: 0, stage: "train", step: 1, sample: 0, repeat: 0 };
  const options = { temperature: 1, maxTokens: 64, maxTurns: 8, deadlineSeconds: 30, address };
  const cut = await playEpisode(make([yes], { toolCalls: 1 }), task, { ...options, policy: scriptedPolicy(() => call("yes")) });
  expect([cut.end, cut.turns.length, isTruncated(cut)]).toEqual([{ type: "toolBudget" }, 3, true]);
  expect((await scoreTrajectory(() => scored(0, "cut"), cut)).verdict).toMatchObject({ type: "scored", score: 0 });
  expect(decodeRollout(encodeRollout({ trajectory: cut, verdict: scored(0, "cut") }, null), "t").scored.trajectory.end).toEqual(cut.end);
  const gone = tool("gone", () => Promise.reject(new ToolUnavailableError("server down")));
  const lost = await playEpisode(make([gone], {}), task, { ...options, policy: scriptedPolicy(() => call("gone")) });
  expect(lost.end).toEqual({ type: "error", boundary: "tool", message: "server down" });
  expect((await scoreTrajectory(() => scored(0, ""), lost)).verdict).toEqual({ type: "infrastructure", reason: "tool: server down" });
});
