import { expect, test } from "vitest";
import {
  ConfigError, EnvError, FlywheelError, ModelError, PolicyError, RewardError, RunError, SandboxError, TokenizerError, ToolError,
  boundary, diskProblem, expected, finite, messageOf, onDisk, scored,
} from "../src/errors.ts";

test("the message names the thing, the expected, the found and the remedy", () => {
  expect(expected("rollout.groupSize", "at least 2", "1")).toBe("rollout.groupSize: expected at least 2, got 1");
  expect(expected("rollout.groupSize", "at least 2", "1", "a group of one has zero advantage")).toBe(
    "rollout.groupSize: expected at least 2, got 1; a group of one has zero advantage",
  );
});

test.each([
  [ConfigError, "config"], [ModelError, "model"], [TokenizerError, "tokenizer"], [PolicyError, "policy"], [EnvError, "environment"],
  [RewardError, "reward"], [ToolError, "tool"], [SandboxError, "sandbox"], [RunError, "run"],
] as const)("%o carries its boundary, its name and its cause", (wrap, name) => {
  const cause = new TypeError("inner");
  const error = new wrap("outer", { cause });
  expect(error).toBeInstanceOf(FlywheelError);
  expect(error).toMatchObject({ boundary: name, name: wrap.name, message: "outer", cause });
});

const notFinite = [true, false, "1", "", NaN, Infinity, -Infinity, null, undefined, 1n, [1], { valueOf: () => 1 }];

test.each(notFinite)("finite refuses %o", (value) => {
  expect(() => finite(value, "reward score")).toThrow(RewardError);
});

test("finite says what it found, and gives finite numbers back unchanged", () => {
  expect(() => finite("1", "reward score")).toThrow("reward score: expected a finite number, got string 1");
  expect(() => finite(true, "reward score")).toThrow("reward score: expected a finite number, got boolean true");
  expect(() => finite(NaN, "reward score")).toThrow("reward score: expected a finite number, got number NaN");
  for (const value of [0, -0, 1, -2.5, Number.MAX_VALUE, Number.MIN_VALUE]) expect(finite(value, "x")).toBe(value);
});

test("scored refuses a score or a component that is not finite, by name", () => {
  expect(scored(0.5, "half", { format: 1 })).toEqual({ type: "scored", score: 0.5, components: { format: 1 }, explanation: "half" });
  expect(() => scored(Infinity, "")).toThrow("reward score: expected a finite number, got number Infinity");
  expect(() => scored(1, "", { format: NaN })).toThrow("reward component format: expected a finite number, got number NaN");
});

test("boundary gives the value, of a function or of a promise", async () => {
  expect(await boundary(EnvError, "env", () => 1)).toBe(1);
  expect(await boundary(EnvError, "env", async () => 2)).toBe(2);
});

test("boundary wraps what crosses it once: plain errors get the boundary, those that have one keep it", async () => {
  const cause = new Error("disk full");
  const wrapped = boundary(ToolError, "tool calculator", () => Promise.reject(cause));
  await expect(wrapped).rejects.toMatchObject({ name: "ToolError", boundary: "tool", message: "tool calculator: disk full", cause });
  const named = new SandboxError("no isolation");
  await expect(boundary(ToolError, "tool python", () => Promise.reject(named))).rejects.toBe(named);
  const thrown = boundary(RewardError, "grader", () => {
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- authors may throw anything
    throw "a string";
  });
  await expect(thrown).rejects.toMatchObject({ name: "RewardError", message: "grader: a string" });
});

test("messageOf reads errors and everything else", () => {
  const causes = [new Error("a"), "b", undefined, { toString: () => "c" }];
  expect(causes.map(messageOf)).toEqual(["a", "b", "undefined", "c"]);
});

test("what the file system refuses is one line with its place; other errors stay as they are", async () => {
  const refusal = (code: string, more: object = {}): Error => Object.assign(new Error(`${code}: refused, write`), { code, ...more });
  const full = onDisk(RunError, "run folder runs/a", () => Promise.reject(refusal("ENOSPC")));
  const line = "run folder runs/a: expected room on the disk, got a full disk (ENOSPC); free some space and try again";
  await expect(full).rejects.toMatchObject({ name: "RunError", message: line });
  expect(diskProblem(refusal("EROFS", { path: "/a" }), "/b")).toBe(
    "/a: expected a file system that can be written to, got one for reading alone (EROFS); choose another place",
  );
  expect([diskProblem(refusal("ENOSPC")), diskProblem(refusal("toString"), "a"), diskProblem(new Error("x"), "a")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  const other = new Error("other");
  await expect(onDisk(RunError, "a", () => Promise.reject(other))).rejects.toBe(other);
});
