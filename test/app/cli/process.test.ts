/** The command as a process of its own: signals, pipes and exit codes. */
import { type ChildProcess, spawn } from "node:child_process";
import { EventEmitter } from "node:events";
import { closeSync, cpSync, openSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { interruption } from "../../../src/app/cli/interrupt.ts";
import { Interrupted } from "../../../src/app/cli/services.ts";
import { fakeHub } from "../../compute/models/files/fake-hub.ts";
import { temporaryFolder, writeTinyModel, writeTinyRun } from "../../fakes/model-folders.ts";
import { transpiled } from "../../fakes/transpiled.ts";

const source = transpiled(["."]);
cpSync("package.json", join(dirname(source), "package.json"));
afterAll(() => rmSync(dirname(source), { recursive: true, force: true }));

function flywheel(args: readonly string[], environment: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, [join(source, "app/cli/main.js"), ...args], { env: { ...process.env, ...environment } });
}

function ended(child: ChildProcess): Promise<{ code: number | null; out: string; err: string }> {
  let [out, err] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (err += chunk.toString()));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, out, err })));
}

/** A hub that never finishes the weights. */
async function endlessHub(onRequest: () => void) {
  const files = { "config.json": Buffer.from("{}"), "model.safetensors": Buffer.alloc(1000) };
  return fakeHub({
    id: "org/tiny",
    files,
    behaviour: (request, response) => {
      if (!request.url!.endsWith("model.safetensors")) return false;
      response.writeHead(200, { "content-length": 1000 });
      response.write(Buffer.alloc(500));
      setTimeout(onRequest, 200);
      return true;
    },
  });
}

test("the first Ctrl-C stops in order: a message, exit code 130", async () => {
  let stop = (): void => undefined;
  const { endpoint } = await endlessHub(() => stop());
  const child = flywheel(["pull", "org/tiny"], { HF_ENDPOINT: endpoint, FLYWHEEL_CACHE: await temporaryFolder() });
  stop = () => void child.kill("SIGINT");
  const { code, err } = await ended(child);
  expect(code).toBe(130);
  expect(err).toContain("stopped at 502 B of 1.00 kB; run it again to continue");
});

test("SIGTERM stops as Ctrl-C does", async () => {
  let stop = (): void => undefined;
  const { endpoint } = await endlessHub(() => stop());
  const child = flywheel(["pull", "org/tiny"], { HF_ENDPOINT: endpoint, FLYWHEEL_CACHE: await temporaryFolder() });
  stop = () => void child.kill("SIGTERM");
  const { code, err } = await ended(child);
  expect([code, err.includes("run it again to continue")], err).toEqual([130, true]);
});

test("standard output on a full disk is one line", async () => {
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, [join(source, "app/cli/main.js"), "--help"], { stdio: ["ignore", full, "pipe"] });
  const { code, err } = await ended(child);
  closeSync(full);
  expect([code, err]).toEqual([
    1,
    "error: standard output: expected room on the disk, got a full disk (ENOSPC); free some space and try again\n",
  ]);
});

test("the second Ctrl-C ends the process at once", () => {
  const source = new EventEmitter();
  const codes: number[] = [];
  const { signal } = interruption(source, { exit: (code) => codes.push(code) });
  source.emit("SIGINT");
  expect([signal.aborted, codes]).toEqual([true, []]);
  expect(signal.reason).toBeInstanceOf(Interrupted);
  source.emit("SIGINT");
  expect(codes).toEqual([130]);
});

test("a reader that leaves early is no error", async () => {
  const folder = await temporaryFolder();
  const run = await writeTinyRun(join(folder, "run"), await writeTinyModel(join(folder, "base"), "llama"));
  const child = flywheel(["export", run.folder, "--to", join(folder, "out")]);
  child.stdout!.destroy();
  const { code, err } = await ended(child);
  expect([code, err]).toEqual([0, ""]);
});

test("a command that does not stop in time is ended", async () => {
  const source = new EventEmitter();
  const said: string[] = [];
  const started = performance.now();
  const code = await new Promise((resolve) => {
    interruption(source, { exit: resolve, late: () => said.push("late") });
    source.emit("SIGINT");
    setTimeout(() => undefined, 1500); // the patience itself keeps no process alive
  });
  expect([code, said]).toEqual([130, ["late"]]);
  expect(performance.now() - started).toBeLessThan(2000);
});
