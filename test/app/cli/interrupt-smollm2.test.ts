/** Ctrl-C with a real model, whose every call takes long: while it is opened, while it samples, while it trains. */
import { spawn } from "node:child_process";
import { cpSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { readRun } from "../../../src/train/record/read-run.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";
import { hasSmolLM2, smolLM2 } from "../../fakes/smollm2.ts";
import { transpiled } from "../../fakes/transpiled.ts";

const source = hasSmolLM2 ? transpiled(["."]) : undefined;
if (source !== undefined) cpSync("package.json", join(dirname(source), "package.json"));
afterAll(() => source !== undefined && rmSync(dirname(source), { recursive: true, force: true }));

/** Says on standard error when the engine is asked for something; it is loaded before the command. */
function teller(folder: string): string {
  const engine = pathToFileURL(join(source!, "compute/policy/local/engine.js")).href;
  const file = join(folder, "teller.mjs");
  writeFileSync(file, `import { LocalEngine } from ${JSON.stringify(engine)};
for (const name of ["sample", "forwardBackward"]) {
  const own = LocalEngine.prototype[name];
  LocalEngine.prototype[name] = function (...given) { process.stderr.write(name + " begins\\n"); return own.apply(this, given); };
}
`);
  return file;
}

test.skipIf(!hasSmolLM2)("each time it ends within two seconds with exit code 130, and the run goes on", { timeout: 600_000 }, async () => {
  const cwd = await temporaryFolder();
  const config = join(cwd, "config.json");
  writeFileSync(config, JSON.stringify({
    name: "run",
    model: { path: smolLM2, rank: 4 },
    env: { name: "sums" },
    algo: { name: "grpo", groupSize: 4, klCoef: 0.01 },
    rollout: { tasksPerStep: 1, maxTokens: 32, maxTurns: 1 },
    train: { steps: 1, evalEvery: 0 },
  }));
  const folder = join(cwd, "runs", "run");
  const preload = pathToFileURL(teller(cwd)).href;

  /** Runs the command and interrupts it `later` ms after `begun` says so; resolves with exit code and milliseconds to the end. */
  async function run(more: readonly string[], begun?: (told: string) => boolean, later = 0) {
    const args = ["--import", preload, join(source!, "app/cli/main.js"), "train", config, "--runs", join(cwd, "runs"), ...more];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    let told = "";
    child.stderr.on("data", (chunk: Buffer) => (told += chunk.toString()));
    const ended = new Promise<number>((resolve) => child.on("close", (code) => resolve(code ?? -1)));
    let asked = 0;
    if (begun !== undefined) {
      while (!begun(told) && child.exitCode === null) await wait(5);
      await wait(later);
      asked = performance.now();
      child.kill("SIGINT");
    }
    const code = await ended;
    return { code, took: performance.now() - asked, told };
  }

  const phases = {
    opening: () => existsSync(join(folder, "config.json")),
    sampling: (told: string) => told.includes("sample begins"),
    training: (told: string) => told.includes("forwardBackward begins"),
  };
  for (const [phase, begun] of Object.entries(phases)) {
    const { code, took, told } = await run(phase === "opening" ? [] : ["--resume"], begun, phase === "training" ? 0 : 300);
    expect(code, told).toBe(130);
    expect(took, told).toBeLessThan(2000);
    expect(told).toMatch(/stopped (after step 0|before the first step|at once; every committed step is kept)/);
    // It was still in that phase: the next had not begun.
    if (phase === "opening") expect(told).not.toContain("begins");
    if (phase === "sampling") expect(told).not.toContain("forwardBackward");
    expect((await readRun(folder)).ledger).toEqual([]);
  }
  const { code, told } = await run(["--resume"]);
  expect(code, told).toBe(0);
  expect((await readRun(folder)).ledger.length).toBe(1);
});
