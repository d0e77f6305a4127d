/** A run that is killed and resumed against one that was never stopped. */
import { spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { afterAll, expect, test } from "vitest";
import { tasksOfStep } from "../../src/loop/prompt/order.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";
import { transpiled } from "../fakes/transpiled.ts";

const source = transpiled(["."]);
afterAll(() => rmSync(dirname(source), { recursive: true, force: true }));

/** The toy environment in a process that kills itself in the middle of step 8. */
const CHILD = `
import { letters } from "./letters.js";
import { train } from "./train/train.js";
let step = 0;
const observer = {
  onStep: (row) => (step = row.step),
  onRollout: (done) => step === 7 && done === 3 && process.kill(process.pid, "SIGKILL"),
};
await train(JSON.parse(process.argv[2]), { env: letters(JSON.parse(process.argv[4])), runsFolder: process.argv[3], observer });
`;

const fake = ts.transpileModule(readFileSync("test/fakes/letters.ts", "utf8"), {
  compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
});
writeFileSync(join(source, "letters.js"), fake.outputText.replaceAll("../../src/", "./").replaceAll('.ts"', '.js"'));
writeFileSync(join(source, "child.js"), CHILD);

function killed(args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [join(source, "child.js"), ...args], { stdio: ["ignore", "ignore", "pipe"] });
  let complaint = "";
  child.stderr.on("data", (chunk: Buffer) => (complaint += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on("exit", (code, signal) => (signal === "SIGKILL" ? resolve() : reject(new Error(`child ended with ${code}: ${complaint}`))));
  });
}

/** All that a run recorded but how long it took. */
async function recorded(folder: string) {
  const { ledger, metrics } = await readRun(folder);
  const timeless = metrics.map((row) =>
    Object.fromEntries(Object.entries(row).filter(([key]) => !/^(seconds|tokensPerSecond)\//.test(key))),
  );
  const rollouts = [];
  for (const { step } of ledger) {
    for (const { scored, credit } of await readTrajectories(folder, "step", step)) {
      rollouts.push({ verdict: scored.verdict, advantages: credit?.advantages, trajectory: { ...scored.trajectory, seconds: 0 } });
    }
  }
  return { ledger, timeless, rollouts };
}

test("killed in step 8, resumed from the checkpoint of step 5: bitwise the run that was never stopped", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  // In step 3 no group has a gradient; ten steps of two tasks are one pass, so those tasks come once.
  const flat = tasksOfStep(letters().tasks("train"), { seed: 0, step: 3, count: 2 }).map(({ id }) => id);
  const env = letters(flat);
  const config = lettersConfig(model, {
    rollout: { tasksPerStep: 2 },
    optim: { schedule: "cosine", warmupSteps: 2, weightDecay: 0.01 },
    train: { evalEvery: 5, evalTasks: 4 },
  });
  await killed([JSON.stringify(config), join(runsFolder, "killed"), JSON.stringify(flat)]);
  const halfway = await readRun(join(runsFolder, "killed", "toy"));
  expect(halfway.ledger.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7]);

  const notes: string[] = [];
  const observer = { onNote: (text: string) => notes.push(text) };
  const resumed = await train(config, { env, runsFolder: join(runsFolder, "killed"), resume: true, observer });
  expect(notes).toEqual(["2 steps after checkpoint step-000005 are taken again"]);
  const whole = await train(config, { env, runsFolder: join(runsFolder, "whole") });
  expect([resumed.steps, whole.steps]).toEqual([10, 10]);
  expect(resumed.evaluation!.score).toBe(whole.evaluation!.score);

  const [left, right] = [await recorded(resumed.folder), await recorded(whole.folder)];
  expect(left.ledger).toEqual(right.ledger);
  expect(left.timeless).toEqual(right.timeless);
  expect(left.rollouts).toEqual(right.rollouts);
  for (const file of ["weights.safetensors", "moments.safetensors", "state.json"]) {
    const bytes = (folder: string): Buffer => readFileSync(join(folder, "checkpoints", "step-000010", file));
    expect(bytes(resumed.folder).equals(bytes(whole.folder)), file).toBe(true);
  }
  // The step without a gradient took its place, its tasks and its share of the schedule, and no version.
  expect(right.ledger.map(({ version }) => version)).toEqual([1, 2, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(right.ledger[2]).toMatchObject({ tasks: flat, skipped: "no group has a gradient" });
  expect(right.timeless.find((row) => row["step"] === 3)).toMatchObject({ fracZeroStd: 1, "batch/skipped": 1 });
  expect(new Set(right.ledger.flatMap(({ tasks }) => tasks)).size).toBe(20);
});
