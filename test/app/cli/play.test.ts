import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { expect, test } from "vitest";
import { houseOf, house } from "../../../src/env/house.ts";
import { solve } from "../../../src/env/house/solve.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";

const task = house().tasks("train").at(0);
const way = solve(houseOf(task));

test("a script plays: what the policy sees, each answer, each reply, the reward at the end", async () => {
  const script = join(await temporaryFolder(), "way.txt");
  writeFileSync(script, `${way.join("\n")}\n`);
  const { code, out, err } = await runFlywheel(["play", "house", "--script", script]);
  expect([code, err]).toEqual([0, ""]);
  const lines = out.split("\n");
  expect(lines[0]).toBe("house  task house-train-0");
  expect(lines[1]).toBe("user       Find the lamp. Say a number.");
  expect(lines.filter((line) => line.startsWith("assistant")).map((line) => line.slice(11))).toEqual(way);
  expect(lines.filter((line) => line.startsWith("user")).length).toBe(way.length);
  expect(out).toContain(`the episode is over\nreward     1 (the lamp was taken; ${way.length} moves, `);
  expect(out).toContain(", detour 1, won 1\n");
  // Every message of the environment is there, whole and in order, and nothing of the task's data.
  expect(out).not.toContain("shortest");
});

test("tools are shown as the policy is told of them, and called by name with JSON", async () => {
  const script = join(await temporaryFolder(), "calls.txt");
  writeFileSync(script, '/call calculator {"expression": "6*7"}\n/call calculator {"x": 1}\nThe answer \\\nis 42.');
  const env = '{"name": "sums", "calculator": true}';
  const { code, out } = await runFlywheel(["play", env, "--test", "--script", script]);
  expect(code).toBe(0);
  expect(out).toMatch(/^tool {7}calculator \{.*"expression".*\}: Works out a sum\.$/m);
  expect(out).toContain('assistant  /call calculator {"expression":"6*7"}\ntool calculator 42\n');
  expect(out).toMatch(/tool calculator error: .*"expression" is missing/);
});

test("the reference can be watched; a task and a split can be chosen", async () => {
  const { out, code } = await runFlywheel(["play", "-e", "lock", "--task", "3", "--reference"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^lock {2}task lock-train-3\n[^]*reward {5}1 \(12 of 12 dials set/);
});

test("two agents: each prompt is shown as that agent sees it", async () => {
  const script = join(await temporaryFolder(), "talk.txt");
  writeFileSync(script, "1\nwrong\n2\n");
  const { out } = await runFlywheel(["play", "review", "--script", script]);
  expect(out.match(/^-- (?:worker|checker) --$/gm)).toEqual(["-- worker --", "-- checker --", "-- worker --"]);
  expect(out).toMatch(/-- checker --\nsystem {5}You check sums\. Say right, or say wrong\.\nuser {7}What is .*\n {11}Answer: 1\n/);
  expect(out).toContain("Not 1: a checker says that is wrong.");
});

test("at a terminal: a call that is none is asked for again, and /quit stops before the end", async () => {
  const stdin = Object.assign(Readable.from([Buffer.from("/call look {\nx\n/quit\n")]), { isTTY: true });
  const { code, out, err } = await runFlywheel(["play", "house"], { stdin, terminal: 100, environment: { NO_COLOR: "1" } });
  expect(code).toBe(0);
  expect(err).toMatch(/^\/call look: expected arguments as a JSON object, got .*\nsay an answer; \/call/);
  expect(out).toContain("You cannot do that.");
  expect(out).toMatch(/stopped before the end of the episode\nreward {5}0 \(the lamp was not taken; 1 moves/);
});

test("Ctrl-C leaves with 130 and no verdict", async () => {
  const stop = new AbortController();
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  let out = "";
  const write = (text: string): void => {
    out += text;
    if (text.includes("assistant>")) setImmediate(() => stop.abort(new Error("interrupted")));
  };
  const stdout = { columns: 100, isTTY: true, write };
  const { code } = await runFlywheel(["play", "house"], { stdin, stdout, signal: stop.signal, environment: { NO_COLOR: "1" } });
  expect([code, out.includes("reward")]).toEqual([130, false]);
});

test.each<[readonly string[], string]>([
  [["play"], "play: expected an environment, got none"],
  [["play", "houses"], "env.name: expected one of"],
  [["play", "house", "--task", "2000"], "--task: expected 0 to 1999, got 2000"],
  [["play", "house", "--script", "nowhere.txt"], "nowhere.txt: expected a file that can be read, got none"],
  [["play", "house", "--script", "x", "--reference"], "play: expected --script or --reference, got both"],
])("what cannot be played is told: %j", async (args, message) => {
  const { code, err } = await runFlywheel(args);
  expect([code, err.includes(message), err]).toEqual([1, true, err]);
});
