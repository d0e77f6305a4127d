import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { PolicyError, scored } from "../../../src/errors.ts";
import { broadcastCredit } from "../../../src/loop/advantage/broadcast.ts";
import { buildBatch } from "../../../src/loop/batch/rows.ts";
import { playEpisode, type Policy } from "../../../src/loop/rollout/episode.ts";
import { defineEnv, type EnvDefinition } from "../../../src/loop/rollout/tool-env.ts";
import { defineTool } from "../../../src/loop/rollout/tools.ts";
import type { Env, Episode, Task, Trajectory } from "../../../src/types.ts";
import { scriptedPolicy, type Said, type ScriptedOptions } from "../../fakes/scripted-policy.ts";

const task: Task = { id: "count", prompt: [{ role: "user", content: "Count." }], data: {} };
const source = { size: 1, at: () => task };
const address = { seed: 0, stage: "train", step: 1, sample: 0, repeat: 0 };
const limits = { temperature: 1, maxTokens: 64, maxTurns: 4, deadlineSeconds: 30, address };

const envOf = (definition: Partial<EnvDefinition> = {}): Env =>
  defineEnv({ name: "test", tasks: source, reward: () => scored(1, "graded"), ...definition });
const play = (env: Env, policy: Policy, options: Partial<typeof limits> & { signal?: AbortSignal } = {}): Promise<Trajectory> =>
  playEpisode(env, task, { ...limits, ...options, policy });
const saying = (turns: readonly Said[], options: ScriptedOptions = {}) => scriptedPolicy((turn) => turns[turn]!, options);

const counter = defineTool({
  name: "inc",
  description: "Adds to the counter.",
  parameters: z.strictObject({ by: z.int() }),
  run: async ({ by }, { state }) => {
    const before = (state.get("count") as number | undefined) ?? 0;
    await pause(2);
    state.set("count", before + by);
    return String(before + by);
  },
});
const inc = (by: number): string => `<tool_call>\n{"name": "inc", "arguments": {"by": ${by}}}\n</tool_call>`;

test("what is trained is what was sampled, token by token, however the text would be encoded", async () => {
  const policy = scriptedPolicy((turn) => (turn === 0 ? { ids: odd, finish: { type: "eos", id: policy.end } } : "done"));
  // The call, letter by letter: encoding its text gives other, fewer ids.
  const odd = [...inc(1)].flatMap((letter) => policy.encode(letter)).concat(policy.end);
  expect(policy.encode(inc(1)).length).toBeLessThan(odd.length - 1);
  const trajectory = await play(envOf({ tools: [counter] }), policy);
  expect(trajectory.turns.map(({ parse }) => parse)).toEqual(["toolCalls", "answer"]);
  const [first, second] = policy.requests.map(({ prompt }) => prompt);
  expect(second!.slice(0, first!.length + odd.length)).toEqual([...first!, ...odd]);
  expect(trajectory.rows.length).toBe(1);
  const [row] = buildBatch([[broadcastCredit(trajectory, 1)]], {
    reduction: "token-mean",
    maskTruncated: false,
    maxLength: 64,
    skipZero: true,
  }).batch!.units[0]!.rows;
  const last = [...policy.encode("done"), policy.end];
  expect([...row!.ids]).toEqual([...second!, ...last]);
  expect([...row!.trained].map((t) => row!.ids[t])).toEqual([...odd, ...last]);
  const spans = trajectory.rows[0]!.spans.filter((span) => span.kind === "sampled");
  expect([...row!.fields["old"]!]).toEqual(spans.flatMap(({ logprobs }) => logprobs));
  expect(trajectory.measures).toMatchObject({ sampledTokens: odd.length + last.length, newRows: 0 });
});

test("a template that drops earlier thinking makes a second row, counted; each row is what the sampler saw", async () => {
  const policy = saying(["<think>\nx\n</think>\n\nA", "B"], { family: "qwen3" });
  const chatty: Env = { ...envOf(), start: () => echo((turn) => (turn === 0 ? "more" : null)) };
  const trajectory = await play(chatty, policy);
  expect(trajectory.end).toEqual({ type: "done" });
  expect(trajectory.measures["newRows"]).toBe(1);
  expect(trajectory.turns.map(({ row, span }) => [row, span])).toEqual([[0, 1], [1, 1]]);
  trajectory.rows.forEach(({ spans }, i) => {
    expect(spans.map(({ kind }) => kind)).toEqual(["context", "sampled"]);
    expect(spans[0]!.ids).toEqual(policy.requests[i]!.prompt);
  });
  expect(policy.renderer.tokenizer.decode(trajectory.rows[1]!.spans[0]!.ids)).not.toContain("<think>\nx");
});

/** Answers each turn with a user message, or ends. */
function echo(reply: (turn: number) => string | null): Episode {
  let turn = 0;
  return {
    step: async () => {
      const content = reply(turn++);
      return content === null ? { messages: [], done: true } : { messages: [{ role: "user", content }], done: false };
    },
    measures: () => ({}),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

test("a call that cannot be read is told to the model and counted, and is no answer", async () => {
  const policy = saying(['<tool_call>\n{"name": "inc", "arguments": {"by": \n</tool_call>', "done"]);
  const trajectory = await play(envOf({ tools: [counter] }), policy);
  expect(trajectory.turns.map(({ parse }) => parse)).toEqual(["malformedToolCall", "answer"]);
  expect(trajectory.turns[0]!.replies[0]!.content).toContain("the tool call could not be read");
  expect(policy.renderer.tokenizer.decode(policy.requests[1]!.prompt)).toContain("the tool call could not be read");
  expect(trajectory.measures["tools/malformedTurns"]).toBe(1);
  expect(trajectory.end).toEqual({ type: "done" });
});

test("three calls of one turn run in order, one after the other; their results are context", async () => {
  const policy = saying([`${inc(1)}\n${inc(10)}\n${inc(100)}`, "done"]);
  const trajectory = await play(envOf({ tools: [counter] }), policy);
  const { message, replies } = trajectory.turns[0]!;
  expect(replies.map(({ content }) => content)).toEqual(["1", "11", "111"]);
  expect(replies.map(({ toolCallId }) => toolCallId)).toEqual(message.toolCalls!.map(({ id }) => id));
  expect(new Set(replies.map(({ toolCallId }) => toolCallId)).size).toBe(3);
  const [, , glue] = trajectory.rows[0]!.spans;
  expect(glue!.kind).toBe("context");
  expect(policy.renderer.tokenizer.decode(glue!.ids)).toMatch(/1[^]*11[^]*111/);
});

test("a turn that was cut by the limit never runs its call, and ends the episode as cut", async () => {
  let ran = 0;
  const tool = defineTool({ name: "inc", description: "Counts.", parameters: z.strictObject({ by: z.int() }), run: () => String(++ran) });
  const policy = scriptedPolicy(() => ({ ids: policy.encode(inc(1)), finish: { type: "length" } }));
  const trajectory = await play(envOf({ tools: [tool] }), policy);
  expect([ran, trajectory.end, trajectory.turns.map(({ parse }) => parse)]).toEqual([0, { type: "length" }, ["truncated"]]);
  expect(policy.requests[0]!.maxTokens).toBe(64);
});

test("the limit of turns ends an episode as truncated", async () => {
  const endless: Env = { ...envOf(), start: () => echo(() => "more") };
  const trajectory = await play(endless, saying(["a", "b", "c", "d"]), { maxTurns: 3 });
  expect([trajectory.end, trajectory.turns.length]).toEqual([{ type: "turnLimit" }, 3]);
  // The answer to the last turn is recorded, and not in the row: nobody saw it.
  expect(trajectory.rows[0]!.spans.at(-1)!.kind).toBe("sampled");
});

test("a full context ends the episode; the last turn gets the room that is left", async () => {
  const endless: Env = { ...envOf(), start: () => echo(() => "more and more and more") };
  const probe = saying(["a"]);
  await play(envOf(), probe);
  const start = probe.requests[0]!.prompt.length;
  const policy = scriptedPolicy(
    (_, { maxTokens }) => (maxTokens < 10 ? { ids: Array.from({ length: maxTokens }, () => 40), finish: { type: "length" } } : "a"),
    { contextLength: start + 60 },
  );
  const trajectory = await play(endless, policy, { maxTurns: 50, maxTokens: 30 });
  expect(trajectory.end).toEqual({ type: "length" });
  const rooms = policy.requests.map(({ prompt, maxTokens }) => [maxTokens, Math.min(30, start + 60 - prompt.length)]);
  for (const [given, room] of rooms) expect(given).toBe(room);
  const total = trajectory.rows[0]!.spans.reduce((sum, { ids }) => sum + ids.length, 0);
  expect(total).toBeGreaterThanOrEqual(start + 50);
});

test("a prompt that fills the context is refused with the task's id, never cut", async () => {
  const policy = saying(["a"], { contextLength: 10 });
  await expect(play(envOf(), policy)).rejects.toThrow(
    /^task count: expected a prompt below 10 tokens \(the model's context\), got \d+; leave the task out/,
  );
  expect(policy.requests).toEqual([]);
});

test("each turn of each sample has random numbers of its own, found from its address alone", async () => {
  const keysOf = async (of: Partial<typeof address>): Promise<string[]> => {
    const policy = saying([inc(1), "done"]);
    await play(envOf({ tools: [counter] }), policy, { address: { ...address, ...of } });
    return policy.requests.map(({ keys }) => JSON.stringify(keys));
  };
  const all = [
    await keysOf({}),
    await keysOf({ sample: 1 }),
    await keysOf({ step: 2 }),
    await keysOf({ repeat: 1 }),
    await keysOf({ seed: 5 }),
  ];
  expect(new Set(all.flat()).size).toBe(10);
  expect(await keysOf({})).toEqual(all[0]);
});

// ---------------------------------------------------------------------------------------------------------------- faults

interface Watched {
  readonly env: Env;
  readonly closed: () => number;
}

/** An environment whose episodes do one thing, and count how often they are closed. */
function watched(step: Episode["step"], close: () => Promise<void> = async () => undefined): Watched {
  let closed = 0;
  const start = (): Episode => ({ step, measures: () => ({ kept: 1 }), [Symbol.asyncDispose]: async () => (closed++, close()) });
  return { env: { ...envOf(), start }, closed: () => closed };
}

test("an environment that throws ends its episode as an error, with what was sampled, and is closed", async () => {
  const { env, closed } = watched(() => Promise.reject(new Error("the service is down")));
  const trajectory = await play(env, saying(["a"]));
  expect(trajectory.end).toEqual({ type: "error", boundary: "environment", message: "the service is down" });
  expect([trajectory.measures["sampledTokens"], closed()]).toEqual([2, 1]);
  const atOnce = watched(() => {
    throw new Error("at once");
  });
  expect((await play(atOnce.env, saying(["a"]))).end).toMatchObject({ type: "error", message: "at once" });
  const never: Env = { ...envOf(), start: () => { throw new Error("no room"); } };
  expect((await play(never, saying(["a"]))).end).toEqual({ type: "error", boundary: "environment", message: "no room" });
});

test("an environment that never answers ends at the deadline, and is closed", async () => {
  const { env, closed } = watched(() => new Promise(() => undefined));
  const trajectory = await play(env, saying(["a"]), { deadlineSeconds: 0.05 });
  expect([trajectory.end, closed()]).toEqual([{ type: "timeout" }, 1]);
  expect(trajectory.seconds).toBeLessThan(2);
});

test("one that never closes is left behind", async () => {
  const { env, closed } = watched(() => new Promise(() => undefined), () => new Promise(() => undefined));
  const trajectory = await play(env, saying(["a"]), { deadlineSeconds: 0.05 });
  expect([trajectory.end, closed()]).toEqual([{ type: "timeout" }, 1]);
});

test("a failure after the deadline is nobody's unhandled rejection", async () => {
  const late = watched(async () => {
    await pause(60);
    throw new Error("too late to matter");
  });
  expect((await play(late.env, saying(["a"]), { deadlineSeconds: 0.02 })).end).toEqual({ type: "timeout" });
  const aborting = scriptedPolicy(async () => "a");
  const controller = new AbortController();
  const eager = watched(() => {
    controller.abort(new Error("stop"));
    return Promise.reject(new Error("as it stopped"));
  });
  await expect(play(eager.env, aborting, { signal: controller.signal })).rejects.toThrow("stop");
  await pause(80);
});

test("the caller's signal ends it with the caller's reason, and closes the environment", async () => {
  const controller = new AbortController();
  const { env, closed } = watched(() => new Promise(() => undefined));
  const playing = play(env, saying(["a"]), { signal: controller.signal });
  setTimeout(() => controller.abort(new Error("the user left")), 10);
  await expect(playing).rejects.toThrow("the user left");
  expect(closed()).toBe(1);
});

test("a fault of the policy is not the episode's: it is thrown, and the environment closed", async () => {
  const { env, closed } = watched(async () => ({ messages: [], done: true }));
  const broken = scriptedPolicy(() => {
    throw new PolicyError("sample: the weights are gone");
  });
  await expect(play(env, broken)).rejects.toThrow(new PolicyError("sample: the weights are gone"));
  expect(closed()).toBe(1);
});
