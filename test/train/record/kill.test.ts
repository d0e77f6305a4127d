import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { integer, rng } from "../../../src/random.ts";
import { readRun, readTrajectories } from "../../../src/train/record/read-run.ts";
import { openRun } from "../../../src/train/record/run-folder.ts";
import { transpiled } from "../../fakes/transpiled.ts";

const source = transpiled(["train/record", "errors.ts", "json.ts"]);
afterAll(() => rmSync(dirname(source), { recursive: true, force: true }));

/** Trains without end: step n has metrics n/10 and three rollouts, and every third step a checkpoint whose weights say n. */
const CHILD = `
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openRun } from "./train/record/run-folder.js";
import { writeCheckpoint } from "./train/record/checkpoint.js";
const [folder, line] = process.argv.slice(2);
const run = await openRun({ folder, config: { name: "demo" }, plan: {}, resume: process.argv[4] === "resume" });
process.stdout.write("open\\n");
for (let step = run.lastStep + 1; ; step++) {
  const rollouts = [0, 1, 2].map((i) => "s" + step + "-" + i);
  const entry = { step, tasks: ["t"], rollouts, version: step };
  const trajectories = rollouts.map((id) => line.replace("ROLLOUT", id));
  await run.commitStep({ entry, metrics: { step, reward: step / 10 }, trajectories });
  const save = async (to) => writeFileSync(join(to, "weights.bin"), Buffer.alloc(200_000, step));
  if (step % 3 === 0) await writeCheckpoint(run, { step, save, extra: { step } });
}
`;
writeFileSync(join(source, "child.js"), CHILD);

const LINE = JSON.stringify({
  trajectory: {
    id: "ROLLOUT",
    task: { id: "t", prompt: [], data: {} },
    sample: 0,
    rows: [],
    turns: [],
    messages: [],
    end: { type: "done" },
    measures: {},
    seconds: 0,
  },
  verdict: { type: "unscorable", reason: "x".repeat(20_000) },
  advantages: null,
});

/** Lets the child train until `milliseconds` after it has opened the folder, then kills it. */
function trainAndKill(folder: string, mode: "start" | "resume", milliseconds: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(source, "child.js"), folder, LINE, mode], { stdio: ["ignore", "pipe", "pipe"] });
    let complaint = "";
    child.stderr.on("data", (chunk: Buffer) => (complaint += chunk.toString()));
    child.stdout.once("data", () => setTimeout(() => child.kill("SIGKILL"), milliseconds));
    child.on("exit", (code, signal) => (signal === "SIGKILL" ? resolve() : reject(new Error(`child ended with ${code}: ${complaint}`))));
  });
}

async function checkPrefix(folder: string): Promise<number> {
  const { ledger, metrics } = await readRun(folder);
  expect(ledger.map((entry) => entry.step)).toEqual(ledger.map((_, index) => index + 1));
  expect(metrics).toEqual(ledger.map(({ step }) => ({ step, reward: step / 10 })));
  for (const entry of ledger) {
    const records = await readTrajectories(folder, "step", entry.step);
    expect(records.map((record) => record.scored.trajectory.id)).toEqual(entry.rollouts);
  }
  return ledger.length;
}

test("killed at any moment, the folder is a valid prefix and resumes from its newest checkpoint", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "flywheel-kill-")), "demo");
  let reached = 0;
  for (let round = 0; round < 8 || (reached <= 3 && round < 40); round++) { // a slow machine gets more tries
    await trainAndKill(folder, round === 0 ? "start" : "resume", integer(rng(11, round), 120) * (1 + Math.floor(round / 8)));
    const committed = await checkPrefix(folder);
    reached = Math.max(reached, committed);
    const run = await openRun({ folder, config: { name: "demo" }, plan: {}, resume: true });
    // Every complete checkpoint is a multiple of 3; at most the one being written is missing.
    expect([committed - (committed % 3), committed - (committed % 3) - 3]).toContain(run.lastStep);
    if (run.resumedFrom !== null) {
      expect(run.resumedFrom.manifest.step).toBe(run.lastStep);
      expect(readFileSync(join(run.resumedFrom.folder, "weights.bin")).equals(Buffer.alloc(200_000, run.lastStep))).toBe(true);
    }
    expect(await checkPrefix(folder)).toBe(run.lastStep);
    expect(readdirSync(join(folder, "trajectories")).length).toBe(run.lastStep);
    await run.close();
  }
  expect(reached).toBeGreaterThan(3);
});
