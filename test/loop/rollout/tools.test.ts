import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool, runToolCalls, type CallScope } from "../../../src/loop/rollout/tools.ts";
import type { Json, JsonObject, Task, ToolCall } from "../../../src/types.ts";

const task: Task = { id: "t", prompt: [], data: {} };
const scope = (given: Partial<CallScope> = {}): CallScope => ({ task, state: new Map(), signal: new AbortController().signal, ...given });
const call = (id: string, name: string, args: JsonObject): ToolCall => ({ id, name, arguments: args });

/** Reads, waits and writes: two calls at once would lose one. */
const inc = defineTool({
  name: "inc",
  description: "Adds to a counter.",
  parameters: z.strictObject({ by: z.int() }),
  run: async ({ by }, { state }) => {
    const before = (state.get("count") as number | undefined) ?? 0;
    await wait(5 / by);
    state.set("count", before + by);
    return String(before + by);
  },
});

const place = defineTool({
  name: "place",
  description: "Puts an item on a shelf.",
  parameters: z.strictObject({
    item: z.string().min(2).max(8).describe("what"),
    shelf: z.enum(["a", "b"]),
    count: z.int().min(1).optional(),
    at: z.strictObject({ row: z.number() }).optional(),
  }),
  run: ({ item, shelf }) => `${item} on ${shelf}`,
});

test("three calls of one turn run in sequence: counter 111, results in call order with matching ids", async () => {
  const state = new Map<string, unknown>();
  const three = [call("a", "inc", { by: 1 }), call("b", "inc", { by: 10 }), call("c", "inc", { by: 100 })];
  const { messages, records } = await runToolCalls([inc], three, scope({ state }));
  expect(state.get("count")).toBe(111);
  expect(messages).toEqual([
    { role: "tool", content: "1", toolCallId: "a", name: "inc" },
    { role: "tool", content: "11", toolCallId: "b", name: "inc" },
    { role: "tool", content: "111", toolCallId: "c", name: "inc" },
  ]);
  expect(records.map(({ outcome, resultText }) => [outcome, resultText])).toEqual([["ok", "1"], ["ok", "11"], ["ok", "111"]]);
  expect(records.every(({ ms }) => ms >= 0)).toBe(true);
});

test("calls over the limit are answered, not dropped", async () => {
  const state = new Map<string, unknown>();
  const three = [1, 10, 100].map((by) => call(String(by), "inc", { by }));
  const { messages, records } = await runToolCalls([inc], three, scope({ state, maxCallsPerTurn: 1 }));
  expect(state.get("count")).toBe(1);
  expect(records.map(({ outcome }) => outcome)).toEqual(["ok", "not-run", "not-run"]);
  expect(messages.map(({ toolCallId, content }) => [toolCallId, content])).toEqual([
    ["1", "1"],
    ["10", "error: not run: at most 1 calls per turn; call again in the next turn"],
    ["100", "error: not run: at most 1 calls per turn; call again in the next turn"],
  ]);
});

test("the schema that the model is told", () => {
  expect(place.spec).toEqual({
    name: "place",
    description: "Puts an item on a shelf.",
    parameters: {
      type: "object",
      properties: {
        item: { type: "string", minLength: 2, maxLength: 8, description: "what" },
        shelf: { type: "string", enum: ["a", "b"] },
        count: { type: "integer", minimum: 1 },
        at: { type: "object", properties: { row: { type: "number" } }, required: ["row"], additionalProperties: false },
      },
      required: ["item", "shelf"],
      additionalProperties: false,
    },
  });
});

test.each<[JsonObject, string]>([
  [{}, '"item" is missing, it must be a string; "shelf" is missing, it must be one of "a", "b"'],
  [{ item: 7, shelf: "a" }, '"item" must be a string, got 7'],
  [{ item: "x", shelf: "a" }, '"item" must be at least 2 characters, got "x"'],
  [{ item: "long long long", shelf: "a" }, '"item" must be at most 8 characters, got "long long long"'],
  [{ item: "lamp", shelf: "c" }, '"shelf" must be one of "a", "b", got "c"'],
  [{ item: "lamp", shelf: "a", count: 1.5 }, '"count" must be a whole number, got 1.5'],
  [{ item: "lamp", shelf: "a", count: "3" }, '"count" must be a number, got "3"'],
  [{ item: "lamp", shelf: "a", count: 0 }, '"count" must be at least 1, got 0'],
  [{ item: "lamp", shelf: "a", at: { row: null } }, '"at.row" must be a number, got null'],
  [{ item: "lamp", shelf: "a", size: 3 }, 'unknown argument "size" (allowed: item, shelf, count, at)'],
  [JSON.parse('{"item":"ab","shelf":"a","__proto__":{}}') as JsonObject, 'unknown argument "__proto__" (allowed: item, shelf, count, at)'],
])("arguments %j are refused in one line", async (args, reason) => {
  expect(place.validate(args)).toEqual({ ok: false, reason });
  const { records } = await runToolCalls([place], [call("1", "place", args)], scope());
  expect(records[0]).toMatchObject({ outcome: "bad-arguments", resultText: `error: ${reason}` });
});

test("right arguments reach the tool as validated", async () => {
  const args: Record<string, Json> = { item: "lamp", shelf: "a", count: 2 };
  expect(place.validate(args)).toEqual({ ok: true, args });
  const { records } = await runToolCalls([place], [call("1", "place", args)], scope());
  expect(records[0]).toMatchObject({ outcome: "ok", resultText: "lamp on a" });
});

const simple = (name: string, run: Parameters<typeof defineTool>[0]["run"]) =>
  defineTool({ name, description: "", parameters: z.strictObject({}), run });

test("whatever goes wrong is told to the model and recorded, and the next call still runs", async () => {
  const tools = [
    simple("throws", () => {
      throw new Error("no such file");
    }),
    simple("rejects", () => Promise.reject(new Error("offline"))),
    simple("number", () => 3 as unknown as string),
    simple("slow", (_, { signal }) => wait(60_000, "late", { signal })),
    simple("deaf", () => new Promise<string>(() => undefined)),
    simple("fine", () => "yes"),
  ];
  const names = ["throws", "rejects", "number", "slow", "deaf", "toString", "fine"];
  const { records } = await runToolCalls(tools, names.map((name) => call(name, name, {})), scope({ deadlineMs: 20 }));
  expect(records.map(({ outcome, resultText }) => [outcome, resultText])).toEqual([
    ["error", "error: no such file"],
    ["error", "error: offline"],
    ["error", "error: tool number: expected a string as its result, got number"],
    ["timeout", "error: slow took longer than 20 ms and was stopped"],
    ["timeout", "error: deaf took longer than 20 ms and was stopped"],
    ["unknown-tool", 'error: no tool "toString"; tools: throws, rejects, number, slow, deaf, fine'],
    ["ok", "yes"],
  ]);
});

test("when the episode is stopped, the running call ends and the others are not run", async () => {
  const stop = new AbortController();
  const hang = simple("hang", () => {
    setTimeout(() => stop.abort(), 5);
    return new Promise<string>(() => undefined);
  });
  const { records } = await runToolCalls([hang], [call("1", "hang", {}), call("2", "hang", {})], scope({ signal: stop.signal }));
  expect(records.map(({ outcome, resultText }) => [outcome, resultText])).toEqual([
    ["timeout", "error: stopped: the time of the episode is over"],
    ["not-run", "error: not run: the episode was stopped"],
  ]);
});

test("a long result is cut, says so, and keeps no half character", async () => {
  const long = simple("long", () => "abc🎉".repeat(100));
  const { records } = await runToolCalls([long], [call("1", "long", {})], scope({ maxResultChars: 4 }));
  expect(records[0]!.resultText).toBe("abc\n[cut: the first 4 of 500 characters]");
  const exact = await runToolCalls([long], [call("1", "long", {})], scope({ maxResultChars: 500 }));
  expect(exact.records[0]!.resultText).toBe("abc🎉".repeat(100));
});

test("the context is frozen and holds the task and the state of this episode", async () => {
  let seen: unknown;
  const look = simple("look", (_, context) => {
    seen = context;
    return "ok";
  });
  const state = new Map<string, unknown>();
  await runToolCalls([look], [call("1", "look", {})], scope({ state }));
  expect(Object.isFrozen(seen)).toBe(true);
  expect(seen).toMatchObject({ task, state });
});

test("bad definitions and limits are refused early", async () => {
  const rule = "a letter, then letters, digits, _ or -, at most 64";
  expect(() => simple("two words", () => "")).toThrow(`tool name: expected ${rule}, got "two words"`);
  const loose = z.object({ x: z.string() }) as unknown as ReturnType<typeof z.strictObject>;
  expect(() => defineTool({ name: "loose", description: "", parameters: loose, run: () => "" })).toThrow(/use z\.strictObject/);
  const dated = z.strictObject({ when: z.date() });
  const define = () => defineTool({ name: "dated", description: "", parameters: dated, run: () => "" });
  expect(define).toThrow(/tool dated: its parameters have no JSON Schema/);
  await expect(runToolCalls([], [], scope({ deadlineMs: 0 }))).rejects.toThrow("tool limit deadlineMs: expected a positive number, got 0");
});
