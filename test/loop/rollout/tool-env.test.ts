import { expect, test } from "vitest";
import { z } from "zod";
import { scored } from "../../../src/errors.ts";
import { defineEnv, type EnvDefinition, type EpisodeView } from "../../../src/loop/rollout/tool-env.ts";
import { playScripted, type ScriptedTurn } from "../../../src/loop/rollout/scripted.ts";
import { defineTool } from "../../../src/loop/rollout/tools.ts";
import type { Message, Task, TaskSource, ToolCall, Turn } from "../../../src/types.ts";

const task: Task = { id: "t", prompt: [{ role: "user", content: "Count." }], data: {} };
const source: TaskSource = { size: 1, at: () => task };
const tick = defineTool({
  name: "tick",
  description: "Counts up by one.",
  parameters: z.strictObject({}),
  run: (_, { state }) => {
    const count = ((state.get("count") as number | undefined) ?? 0) + 1;
    state.set("count", count);
    return String(count);
  },
});
const make = (more: Partial<EnvDefinition> = {}) =>
  defineEnv({ name: "count", tasks: () => source, tools: [tick], reward: () => scored(1, "fine"), ...more });
const calls = (...names: string[]): Message => ({
  role: "assistant",
  content: "",
  toolCalls: names.map((name, i): ToolCall => ({ id: `${name}-${i}`, name, arguments: {} })),
});
const say = (content: string): Message => ({ role: "assistant", content });
const broken: ScriptedTurn = { message: say("<tool_call>{"), parse: "malformedToolCall" };

test("calls run, errors are told, an answer ends the episode", async () => {
  const played = await playScripted(make(), task, [calls("tick", "tick"), calls("tock"), broken, say("2"), say("never reached")]);
  expect(played.done).toBe(true);
  expect(played.messages.filter(({ role }) => role !== "assistant").map(({ role, content }) => [role, content])).toEqual([
    ["user", "Count."],
    ["tool", "1"],
    ["tool", "2"],
    ["tool", 'error: no tool "tock"; tools: tick'],
    ["user", "error: the tool call could not be read and was not run"],
  ]);
  expect(played.measures).toEqual({
    turns: 4,
    "tools/calls": 3,
    "tools/errors": 1,
    "tools/notRun": 0,
    "tools/malformedTurns": 1,
    "tools/wrongTool": 1,
    "tools/malformed": 1,
    "tools/wrongArguments": 0,
    "tools/resultIgnored": 0,
    "tools/spent": 0,
    "seconds/tools": expect.any(Number),
  });
});

test("the state lasts for an episode and is shared with no other", async () => {
  const env = make();
  const two = await Promise.all([1, 2].map(() => playScripted(env, task, [calls("tick"), calls("tick"), say("2")])));
  for (const { messages } of two) expect(messages.filter(({ role }) => role === "tool").map(({ content }) => content)).toEqual(["1", "2"]);
});

test("the calls of the last turn are not run, because nobody would see their results", async () => {
  const played = await playScripted(make({ maxTurns: 2 }), task, [calls("tick"), calls("tick", "tick"), say("late")]);
  expect(played.done).toBe(true);
  expect(played.turns.length).toBe(2);
  expect(played.turns[1]!.replies).toEqual([
    { role: "tool", content: "error: not run: no turns are left", toolCallId: "tick-0", name: "tick" },
    { role: "tool", content: "error: not run: no turns are left", toolCallId: "tick-1", name: "tick" },
  ]);
  expect(played.measures).toMatchObject({ turns: 2, "tools/calls": 3, "tools/errors": 0, "tools/notRun": 2 });
});

test("own measures see the task, the records, the malformed turns and the answer", async () => {
  let seen: EpisodeView | undefined;
  const env = make({
    measures: (episode) => {
      seen = episode;
      return { answered: episode.answer === null ? 0 : 1 };
    },
  });
  const { measures } = await playScripted(env, task, [broken, calls("tick"), say("1")]);
  expect(measures).toMatchObject({ answered: 1, "tools/malformedTurns": 1 });
  expect([seen!.task, seen!.malformed, seen!.answer, seen!.calls.map(({ resultText }) => resultText)]).toEqual([task, 1, "1", ["1"]]);
  expect((await playScripted(env, task, [{ message: say("1"), parse: "truncated" }])).measures).toMatchObject({ answered: 0 });
});

test("a measure that is not finite is an error with its name", async () => {
  const env = make({ measures: () => ({ rate: 0 / 0 }) });
  await expect(playScripted(env, task, [say("1")])).rejects.toThrow("environment count: measure rate: expected a finite number, got NaN");
});

test("closing an episode stops the tool that runs", async () => {
  let signal: AbortSignal | undefined;
  const hang = defineTool({
    name: "hang",
    description: "",
    parameters: z.strictObject({}),
    run: (_, context) => {
      signal = context.signal;
      return new Promise<string>(() => undefined);
    },
  });
  const episode = make({ tools: [hang] }).start(task);
  const turn: Turn = { row: -1, span: -1, message: calls("hang"), parse: "toolCalls", replies: [] };
  const step = episode.step(turn, new AbortController().signal);
  setTimeout(() => void episode[Symbol.asyncDispose](), 5);
  expect((await step).messages[0]!.content).toBe("error: stopped: the time of the episode is over");
  expect(signal!.aborted).toBe(true);
});

test("definitions that cannot work are refused", () => {
  expect(() => make({ tools: [tick, tick] })).toThrow("environment count: tools: expected one tool of each name, got two named tick");
  expect(() => make({ maxTurns: 0 })).toThrow("environment count: maxTurns: expected at least 1, got 0");
  expect(() => make({ limits: { maxResultChars: -1 } })).toThrow("tool limit maxResultChars: expected a positive number, got -1");
  const one = make({ tasks: source });
  expect(one.tasks("train")).toBe(source);
  expect(() => one.tasks("test")).toThrow(/expected a test split.*give a function of the split/);
});
