import { appendFileSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { checkpointName, writeCheckpoint } from "../../../src/train/record/checkpoint.ts";
import { readRun, readTrajectories, trajectorySteps } from "../../../src/train/record/read-run.ts";
import { type Run, type StepRecord, openRun } from "../../../src/train/record/run-folder.ts";
import { encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import type { JsonObject } from "../../../src/types.ts";
import { fakeCredit, fakeScored } from "../../fakes/rollouts.ts";

const config = { name: "demo", algo: { groupSize: 8, klCoef: 0 } };
const plan = { steps: 10 };
const newFolder = (): string => join(mkdtempSync(join(tmpdir(), "flywheel-run-")), "demo");
const open = (folder: string, resume = false): Promise<Run> => openRun({ folder, config, plan, resume });

function stepRecord(step: number, checkpoint = false): StepRecord {
  const rollout = fakeScored(`s${step}-a`, step % 2);
  const base = { step, tasks: ["sum-1"], rollouts: [rollout.trajectory.id], version: step };
  return {
    entry: checkpoint ? { ...base, checkpoint: checkpointName(step) } : base,
    metrics: { step, "reward/mean": step / 10 },
    trajectories: [encodeRollout(rollout, fakeCredit(rollout))],
  };
}

const saveWeights =
  (step: number) =>
  async (folder: string): Promise<void> => {
    writeFileSync(join(folder, "weights.bin"), Buffer.alloc(64, step));
  };

async function trainTo(run: Run, last: number): Promise<void> {
  for (let step = run.lastStep + 1; step <= last; step++) {
    await run.commitStep(stepRecord(step, step % 2 === 0));
    if (step % 2 === 0) await writeCheckpoint(run, { step, save: saveWeights(step), extra: { version: step } });
  }
}

const contents = (folder: string): Record<string, string> =>
  Object.fromEntries(
    ["ledger.jsonl", "metrics.jsonl", ...readdirSync(join(folder, "trajectories")).map((name) => `trajectories/${name}`)].map((name) => [
      name,
      readFileSync(join(folder, name), "utf8"),
    ]),
  );

test("a new run has its files and reads back what was committed", async () => {
  const folder = newFolder();
  const run = await open(folder);
  await run.recordEvaluation({ step: 0, "heldout/success": 0.25 }, []);
  await trainTo(run, 3);
  await run.close();
  const files = ["checkpoints", "config.json", "inputs.json", "ledger.jsonl", "metrics.jsonl", "plan.json", "trajectories"];
  expect(readdirSync(folder).sort()).toEqual(files);
  const record = await readRun(folder);
  expect(record.config).toEqual(config);
  expect(record.ledger.map((entry) => [entry.step, entry.version, entry.checkpoint])).toEqual([
    [1, 1, undefined],
    [2, 2, "step-000002"],
    [3, 3, undefined],
  ]);
  expect(record.metrics.map((row) => row["reward/mean"] ?? row["heldout/success"])).toEqual([0.25, 0.1, 0.2, 0.3]);
  expect(await trajectorySteps(folder, "step")).toEqual([1, 2, 3]);
  expect((await readTrajectories(folder, "step", 2))[0]?.scored).toEqual(fakeScored("s2-a", 0));
});

test("a taken folder is refused, with its number of steps and the remedy", async () => {
  const folder = newFolder();
  const run = await open(folder);
  await trainTo(run, 3);
  await run.close();
  await expect(open(folder)).rejects.toThrow(
    `run folder ${folder}: expected an empty or new folder, got a run of 3 steps; resume it, or use another name`,
  );
  expect(existsSync(join(folder, "lock"))).toBe(false);
});

test("a folder with other files, and a resume of nothing, are refused", async () => {
  const other = mkdtempSync(join(tmpdir(), "flywheel-run-"));
  writeFileSync(join(other, "thesis.txt"), "");
  await expect(open(other)).rejects.toThrow("other files (thesis.txt)");
  await expect(open(newFolder(), true)).rejects.toThrow("expected a run to resume, got none");
});

test("resume with another configuration names the keys", async () => {
  const folder = newFolder();
  await (await open(folder)).close();
  const changed = { name: "demo", algo: { groupSize: 4, klCoef: 0 }, seed: 1 };
  await expect(openRun({ folder, config: changed, plan, resume: true })).rejects.toThrow(
    "another: algo.groupSize (8 -> 4), seed (null -> 1); restore it",
  );
});

test("resume with an input file of another content names the file", async () => {
  const folder = newFolder();
  const inputs = { "train.jsonl": "0123456789abcdef", "pairs.jsonl": "ffff" };
  await (await openRun({ folder, config, plan, inputs, resume: false })).close();
  await (await openRun({ folder, config, plan, inputs, resume: true })).close();
  await expect(openRun({ folder, config, plan, inputs: { ...inputs, "train.jsonl": "fedcba9876543210" }, resume: true })).rejects.toThrow(
    `run folder ${folder}: expected train.jsonl as it was when the run began (SHA-256 0123456789ab…), ` +
      "got another content (fedcba987654…); restore it, or use another name",
  );
  const { "train.jsonl": one, ...less } = inputs;
  await expect(openRun({ folder, config, plan, inputs: less, resume: true })).rejects.toThrow(
    `expected train.jsonl as it was when the run began (SHA-256 ${one.slice(0, 12)}…), got none;`,
  );
  await expect(openRun({ folder, config, plan, inputs: { ...inputs, more: "eeee" }, resume: true })).rejects.toThrow(
    "expected no input more, got one (eeee…);",
  );
  expect(existsSync(join(folder, "lock"))).toBe(false);
});

test("a living lock is refused, a dead one and one of a reused pid are taken over", async () => {
  const folder = newFolder();
  const run = await open(folder);
  await expect(open(folder, true)).rejects.toThrow(`a lock held by process ${process.pid}; wait for it or stop it`);
  await run.close();
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  writeFileSync(join(folder, "lock"), JSON.stringify({ host: hostname(), pid, started: "boot:1" }));
  await (await open(folder, true)).close();
  writeFileSync(join(folder, "lock"), JSON.stringify({ host: hostname(), pid: process.ppid, started: "another process" }));
  await (await open(folder, true)).close();
  writeFileSync(join(folder, "lock"), JSON.stringify({ host: "elsewhere", pid: 1, started: "x" }));
  await expect(open(folder, true)).rejects.toThrow(`process 1 on host elsewhere; if it is gone, remove ${join(folder, "lock")}`);
});

test("resume cuts back to the checkpoint and writes the same lines again", async () => {
  const [whole, broken] = [newFolder(), newFolder()];
  const uninterrupted = await open(whole);
  await trainTo(uninterrupted, 6);
  await uninterrupted.close();
  const first = await open(broken);
  await trainTo(first, 5);
  await first.close();
  appendFileSync(join(broken, "ledger.jsonl"), '{"step":6,"tas');
  appendFileSync(join(broken, "metrics.jsonl"), '{"step":6,"reward/mean":0.6}\n{"st');
  const second = await open(broken, true);
  expect(second.lastStep).toBe(4);
  expect(second.resumedFrom?.manifest.extra).toEqual({ version: 4 });
  expect(second.notes).toEqual(["1 step after checkpoint step-000004 is taken again"]);
  expect(readFileSync(join(broken, "metrics.jsonl"), "utf8").split("\n").length).toBe(5);
  await trainTo(second, 6);
  await second.close();
  expect(contents(broken)).toEqual(contents(whole));
});

test("without a checkpoint a resumed run starts at its beginning", async () => {
  const folder = newFolder();
  const run = await open(folder);
  await run.recordEvaluation({ step: 0, "heldout/success": 0.25 }, []);
  await trainTo(run, 1);
  await run.close();
  const again = await open(folder, true);
  expect(again.lastStep).toBe(0);
  expect(again.resumedFrom).toBeNull();
  expect(readFileSync(join(folder, "metrics.jsonl"), "utf8")).toBe("");
  expect(readdirSync(join(folder, "trajectories"))).toEqual([]);
  await again.close();
});

test("a step out of order, a rollout committed twice and missing trajectories are refused", async () => {
  const run = await open(newFolder());
  await expect(run.commitStep(stepRecord(2))).rejects.toThrow("next step: expected 1, got 2");
  const twice = stepRecord(1);
  const line = twice.trajectories[0] ?? "";
  await expect(run.commitStep({ ...twice, entry: { ...twice.entry, rollouts: ["x", "x"] }, trajectories: [line, line] })).rejects.toThrow(
    "rollout x twice",
  );
  await expect(run.commitStep({ ...twice, trajectories: [] })).rejects.toThrow("step 1: expected 1 trajectories, got 0");
  expect(run.lastStep).toBe(0);
  await run.close();
});

test("a full disk is told, and the step is not committed", async () => {
  const folder = newFolder();
  const run = await open(folder);
  await trainTo(run, 1);
  rmSync(join(folder, "metrics.jsonl"));
  symlinkSync("/dev/full", join(folder, "metrics.jsonl"));
  await expect(run.commitStep(stepRecord(2))).rejects.toThrow(
    `${folder}: expected room on the disk, got a full disk (ENOSPC); free some space and try again`,
  );
  expect(run.lastStep).toBe(1);
  await run.close();
});

test("a run that is refused or discarded leaves no folder, and one that was there stays", async () => {
  const folder = newFolder();
  const deep = join(folder, "a", "b");
  await expect(open(deep, true)).rejects.toThrow(`run folder ${deep}: expected a run to resume, got none`);
  expect(existsSync(folder)).toBe(false);
  const run = await open(deep);
  await run.discard();
  await run.close();
  expect(existsSync(folder)).toBe(false);
  const empty = mkdtempSync(folder);
  await expect(open(empty, true)).rejects.toThrow("a run to resume");
  expect(readdirSync(empty)).toEqual([]);
});

test("the number of steps may change where the learning rate is constant, and nowhere else", async () => {
  const folder = newFolder();
  const configured = (steps: number, schedule: string, more: JsonObject = {}) => ({ ...more, optim: { schedule }, train: { steps } });
  const opened = (steps: number, schedule = "constant", more: JsonObject = {}) =>
    openRun({ folder, config: configured(steps, schedule, more), plan: { steps }, resume: existsSync(folder) });
  const first = await opened(4);
  await trainTo(first, 4);
  await first.close();
  await expect(opened(3)).rejects.toThrow(`run folder ${folder}: train.steps: expected at least 4, the steps that are done, got 3`);
  await expect(opened(6, "constant", { seed: 1 })).rejects.toThrow("another: seed (null -> 1), train.steps (4 -> 6); restore it");
  const run = await opened(6);
  expect([run.notes, run.lastStep, run.resumedFrom?.name]).toEqual([["the run now has 6 steps instead of 4"], 4, "step-000004"]);
  await trainTo(run, 6);
  await run.close();
  const { config: now, plan: planned, ledger } = await readRun(folder);
  expect([now, planned, ledger.length]).toEqual([configured(6, "constant"), { steps: 6 }, 6]);
  await expect(opened(6, "linear")).rejects.toThrow('optim.schedule ("constant" -> "linear"); restore it');
  rmSync(folder, { recursive: true });
  await (await opened(4, "cosine")).close();
  await expect(opened(6, "cosine")).rejects.toThrow("train.steps (4 -> 6); its learning rate ends at 0 and would be stretched");
});
