import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { mcpTools } from "../../../src/env/tools/mcp.ts";
import type { ToolSet } from "../../../src/env/tools/tool-set.ts";
import { scored } from "../../../src/errors.ts";
import { defineEnv } from "../../../src/loop/rollout/tool-env.ts";
import { playScripted } from "../../../src/loop/rollout/scripted.ts";
import { runToolCalls } from "../../../src/loop/rollout/tools.ts";
import type { JsonObject, Message, Task } from "../../../src/types.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";

const server = "test/fakes/mcp/server.mjs";
const stdio = (...more: string[]) => ({ command: process.execPath, args: [server, "stdio", ...more] });
const task: Task = { id: "t", prompt: [{ role: "user", content: "Go." }], data: {} };
const scope = () => ({ task, state: new Map<string, unknown>(), signal: new AbortController().signal });
/** A machine may be so busy that a server starts slowly. */
const limits = { deadlineMs: 60_000 };
const call = async ({ tools }: ToolSet, name: string, args: JsonObject = {}, more: object = {}) => {
  const { records } = await runToolCalls(tools, [{ id: "1", name, arguments: args }], { ...scope(), ...limits, ...more });
  return [records[0]!.outcome, records[0]!.resultText];
};
const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const gone = async (pid: number): Promise<boolean> => {
  for (let i = 0; i < 40 && alive(pid); i++) await wait(50);
  return !alive(pid);
};
const timeout = 180_000;

test("stdio: listed, checked, called, told", { timeout }, async () => {
  await using set = await mcpTools({ ...stdio(), env: { GIVEN: "yes" } });
  const add = set.tools.find(({ spec }) => spec.name === "add")!;
  expect(add.spec).toMatchObject({ description: "The tool add.", parameters: { type: "object", required: ["a", "b"] } });
  expect([add.readOnly, set.tools.find(({ spec }) => spec.name === "count")!.readOnly]).toEqual([true, false]);
  expect(await call(set, "add", { a: 2, b: 3 })).toEqual(["ok", "5"]);
  expect(await call(set, "add", { a: 2 })).toEqual(["bad-arguments", 'error: "b" is missing']);
  expect(await call(set, "add", { a: "2", b: 3 })).toEqual(["bad-arguments", 'error: "a" must be number']);
  expect(await call(set, "add", { a: 2, b: 3, c: 1 })).toEqual(["bad-arguments", 'error: unknown argument "c" (allowed: a, b)']);
  expect(await call(set, "code", { code: "a", kind: "z" })).toEqual(["bad-arguments", 'error: "kind" must be one of "x", "y"']);
  // The pattern is the server's to check, in its own process.
  expect((await call(set, "code", { code: "b" }))[0]).toBe("error");
  expect(await call(set, "odd_name")).toEqual(["ok", "odd"]);
  expect(await call(set, "fail")).toEqual(["error", "error: no such city; cities: Rome, Oslo"]);
  expect(await call(set, "empty")).toEqual(["ok", "[no content]"]);
  expect((await call(set, "mixed"))[1]).toBe(
    [
      "one",
      "[image image/png, 20 bytes, not shown]",
      "[resource file:///a.txt]",
      "two",
      "[resource file:///b.bin: application/x, 20 bytes, not shown]",
      "[link more: https://example.org/more]",
    ].join("\n"),
  );
  expect(await call(set, "long", { size: 50 }, { maxResultChars: 10 })).toEqual(["ok", "xxxxxxxxxx\n[cut: the first 10 of 50 characters]"]);
  process.env["FLYWHEEL_TEST_SECRET"] = "hidden";
  expect([await call(set, "env", { name: "FLYWHEEL_TEST_SECRET" }), await call(set, "env", { name: "GIVEN" })]).toEqual([
    ["ok", "none"],
    ["ok", "yes"],
  ]);
});

test("calls of many episodes at once, and one that is cancelled at its deadline", { timeout }, async () => {
  const log = join(await temporaryFolder(), "log");
  await using set = await mcpTools(stdio(log));
  const order: string[] = [];
  const noted = async (name: string, args: JsonObject) => {
    const answered = await call(set, name, args);
    order.push(name);
    return answered;
  };
  const one = (_: unknown, i: number) => Promise.all([noted("wait", { ms: 3000 }), noted("add", { a: i, b: 1 })]);
  const sums = await Promise.all(Array.from({ length: 20 }, one));
  expect(sums.map(([, [, sum]]) => sum)).toEqual(Array.from({ length: 20 }, (_, i) => String(i + 1)));
  // One after another, a sum would come only after the waits before it.
  expect(order.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => "add"));
  const late = await call(set, "wait", { ms: 30_000 }, { deadlineMs: 50 });
  expect(late).toEqual(["timeout", "error: wait took longer than 50 ms and was stopped"]);
  // Messages are read in order: the answer to this one follows the cancellation.
  expect(await call(set, "add", { a: 1, b: 1 })).toEqual(["ok", "2"]);
  expect(await readFile(log, "utf8")).toBe("cancelled\n");
});

test("closing leaves no process, not even those that the server started", { timeout }, async () => {
  const set = await mcpTools({ command: "/bin/sh", args: ["-c", `"${process.execPath}" ${server} stdio; true`] });
  const [pid, child] = [Number((await call(set, "pid"))[1]), Number((await call(set, "child"))[1])];
  expect([alive(pid), alive(child)]).toEqual([true, true]);
  await set[Symbol.asyncDispose]();
  expect([await gone(pid), await gone(child)]).toEqual([true, true]);
  await expect(call(set, "pid")).rejects.toThrow("MCP server mcp: its tools were closed");
});

test("a server that dies or hangs ends the episode as infrastructure; the next call finds a new one", { timeout }, async () => {
  await using set = await mcpTools(stdio());
  const first = Number((await call(set, "pid"))[1]);
  await expect(call(set, "die")).rejects.toThrow("MCP server mcp: the server has ended: out of paper");
  expect(await gone(first)).toBe(true);
  const second = Number((await call(set, "pid"))[1]);
  expect(second).not.toBe(first);
  await expect(call(set, "freeze", {}, { deadlineMs: 50 })).rejects.toThrow(/^MCP server mcp: .*[Tt]imed out/);
  expect(await gone(second)).toBe(true);
  for (let i = 0; i < 3; i++) await expect(call(set, "die")).rejects.toThrow("out of paper");
  await expect(call(set, "die")).rejects.toThrow("given up after 3 restarts");
});

test("an answer without end is cut off with its server", { timeout }, async () => {
  await using set = await mcpTools(stdio());
  await expect(call(set, "long", { size: 5 * 1024 * 1024 })).rejects.toThrow("MCP server mcp: ");
});

const env = (set: ToolSet, given = limits) =>
  defineEnv({ name: "e", tasks: () => ({ size: 1, at: () => task }), tools: set.tools, reward: () => scored(1, ""), limits: given });
const turn = (name: string): Message => ({ role: "assistant", content: "", toolCalls: [{ id: "1", name, arguments: {} }] });
const results = async (set: ToolSet, ...names: string[]): Promise<string[]> => {
  const { messages } = await playScripted(env(set), task, [...names.map(turn), { role: "assistant", content: "" }]);
  return messages.filter(({ role }) => role === "tool").map(({ content }) => content);
};

test("shared state is shared; with perEpisode each episode has a server of its own, gone with it", { timeout }, async () => {
  await using shared = await mcpTools(stdio());
  expect([await results(shared, "count", "count"), await results(shared, "count")]).toEqual([["1", "2"], ["3"]]);
  await using own = await mcpTools({ ...stdio(), perEpisode: true });
  const both = await Promise.all([results(own, "count", "count", "pid"), results(own, "count", "pid")]);
  expect([both[0].slice(0, 2), both[1].slice(0, 1)]).toEqual([["1", "2"], ["1"]]);
  const pids = [Number(both[0][2]), Number(both[1][1])];
  expect(new Set(pids).size).toBe(2);
  expect(await Promise.all(pids.map(gone))).toEqual([true, true]);
  await expect(results(own, "die", "count")).rejects.toThrow("out of paper");
  await using late = await mcpTools({ ...stdio(), env: { START_MS: "1500" }, perEpisode: true });
  const missed = "MCP server mcp: expected a start within the deadline of its first call, got none; raise limits.deadlineMs";
  await expect(playScripted(env(late, { deadlineMs: 100 }), task, [turn("count")])).rejects.toThrow(missed);
});

test("streamable HTTP: headers, sessions, a server that goes away", { timeout }, async () => {
  const file = join(await temporaryFolder(), "port");
  const child = spawn(process.execPath, [server, "http", file], { stdio: "ignore" });
  try {
    const lines = async (): Promise<string[]> => (await readFile(file, "utf8").catch(() => "")).trim().split("\n");
    for (let i = 0; i < 100 && (await lines())[0] === ""; i++) await wait(50);
    const url = `http://127.0.0.1:${(await lines())[0]}/mcp`;
    await expect(mcpTools({ url, headers: { "x-key": "wrong-key" } })).rejects.toThrow(/^MCP server mcp: (?!.*wrong-key)/);
    const set = await mcpTools({ url, headers: { "x-key": "secret-key" } });
    expect(await call(set, "add", { a: 2, b: 3 })).toEqual(["ok", "5"]);
    const own = await mcpTools({ url, headers: { "x-key": "secret-key" }, perEpisode: true, include: ["count"] });
    expect([await results(own, "count", "count"), await results(own, "count")]).toEqual([["1", "2"], ["1"]]);
    // The first listing, and the sessions of the two episodes.
    expect((await lines()).slice(1)).toEqual(["closed s2", "closed s3", "closed s4"]);
    child.kill("SIGKILL");
    await once(child, "exit");
    await expect(call(set, "add", { a: 2, b: 3 })).rejects.toThrow(/^MCP server mcp: /);
    await set[Symbol.asyncDispose]();
  } finally {
    child.kill("SIGKILL");
  }
});

test("several servers: names that clash carry their server's; what cannot be used is refused", { timeout }, async () => {
  await using set = await mcpTools({ left: { ...stdio(), include: ["add", "count"] }, right: { ...stdio(), include: ["pid", "count"] } });
  expect(set.tools.map(({ spec }) => spec.name)).toEqual(["add", "left_count", "right_count", "pid"]);
  await expect(mcpTools({ ...stdio(), include: ["ad"] })).rejects.toThrow(/^MCP server mcp: include: expected some of add, .*, got ad$/);
  await expect(mcpTools({ command: "/nonexistent/program" })).rejects.toThrow(/^MCP server mcp: spawn \/nonexistent\/program ENOENT/);
  await expect(mcpTools({ command: "/bin/sh", args: ["-c", "echo bad key >&2; exit 1"] })).rejects.toThrow(/^MCP server mcp: .*bad key$/);
});
