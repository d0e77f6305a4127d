/** `flywheel train`: Ctrl-C and resume as a process of its own, and what is refused in one line. */
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { CliServices } from "../../../src/app/cli/services.ts";
import { tellStopped } from "../../../src/app/cli/ui/stopped.ts";
import { newestCheckpoint } from "../../../src/train/record/checkpoint.ts";
import { readRun } from "../../../src/train/record/read-run.ts";
import type { JsonObject } from "../../../src/types.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder, writeTinyModel, writeTinyRun } from "../../fakes/model-folders.ts";
import { transpiled } from "../../fakes/transpiled.ts";

const source = transpiled(["."]);
cpSync("package.json", join(dirname(source), "package.json"));
afterAll(() => rmSync(dirname(source), { recursive: true, force: true }));

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

interface Given {
  readonly cwd: string;
  readonly model: string;
  readonly config: string;
}

/** A folder with a tiny model and a configuration: sums, a KL term (so that every step has an update), answers of 6 tokens. */
async function given(changes: JsonObject = {}): Promise<Given> {
  const cwd = await temporaryFolder();
  const model = await writeTinyModel(join(cwd, "model"), "llama", { max_position_embeddings: 256 });
  const config = join(cwd, "config.json");
  writeFileSync(config, JSON.stringify({
    name: "run",
    model: { path: model, adapter: "full" },
    env: { name: "sums" },
    algo: { name: "grpo", groupSize: 2, klCoef: 0.01 },
    rollout: { tasksPerStep: 2, maxTokens: 6 },
    train: { steps: 3, evalEvery: 0, checkpointEvery: 1 },
    ...changes,
  }));
  return { cwd, model, config };
}

test("Ctrl-C ends a run within two seconds with exit code 130, and it resumes", { timeout: 300_000 }, async () => {
  const { cwd, config } = await given();
  const args = ["train", config, "--set", "train.steps=100000", "--runs", join(cwd, "runs"), "--json"];
  const child = spawn(process.execPath, [join(source, "app/cli/main.js"), ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, npm_command: "exec" },
  });
  let told = "";
  let asked = 0;
  child.stderr.on("data", (chunk: Buffer) => {
    told += chunk.toString();
    if (asked > 0 || !/"done":2,/.test(told)) return;
    asked = performance.now();
    child.kill("SIGINT");
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  expect(code, told).toBe(130);
  expect(performance.now() - asked).toBeLessThan(2000);
  const folder = join(cwd, "runs", "run");
  expect(existsSync(join(folder, "lock"))).toBe(false);
  const reached = (await readRun(folder)).ledger.length;
  expect(reached).toBeGreaterThanOrEqual(2);
  const resume = ["npx flywheel", ...args, "--resume"].join(" ");
  const saved = await newestCheckpoint(folder);
  expect(JSON.parse(told.trimEnd().split("\n").at(-1)!)).toEqual({ event: "stopped", step: reached, resumesAfter: saved, resume });

  // The command that it named goes on, here for people; a second Ctrl-C is not needed to end it.
  const again = resume.split(" ").slice(2).filter((word) => word !== "--json");
  const stopping = new AbortController();
  const resuming = runFlywheel(again, { cwd, signal: stopping.signal });
  while ((await readRun(folder)).ledger.length <= saved) await pause(20);
  stopping.abort(new Error("enough"));
  const { code: second, err } = await resuming;
  const steps = (await readRun(folder)).ledger.length;
  expect(second).toBe(130);
  expect(err).toMatch(new RegExp(`stopped after step ${steps}.*; go on with: flywheel `));
  expect(err.endsWith(`flywheel ${again.join(" ")}\n`), err).toBe(true);
});

test("what an interruption says of the checkpoint is so: saved between updates, and else from where a resume begins", async () => {
  const { cwd, config } = await given({ train: { steps: 100, evalEvery: 0, checkpointEvery: 100 } });
  const stopping = new AbortController();
  const folder = join(cwd, "runs", "run");
  const running = runFlywheel(["train", config], { cwd, signal: stopping.signal });
  while (!existsSync(folder) || (await readRun(folder).catch(() => ({ ledger: [] }))).ledger.length < 2) await pause(5);
  stopping.abort(new Error("enough"));
  const { code, err } = await running;
  const [steps, saved] = [(await readRun(folder)).ledger.length, await newestCheckpoint(folder)];
  expect([0, steps]).toContain(saved);
  const then = saved === steps ? "" : ", before the first checkpoint: a resumed run begins again";
  expect([code, err.trimEnd().split("\n").at(-1)]).toEqual([
    130,
    `stopped after step ${steps}${then}; go on with: flywheel train ${config} --resume`,
  ]);
});

test("a stop says which steps will be taken again", async () => {
  const folder = join(await temporaryFolder(), "run");
  const { folder: run } = await writeTinyRun(folder, await writeTinyModel(join(await temporaryFolder(), "base"), "llama"));
  const said = async (): Promise<string> => {
    let text = "";
    const stderr = { write: (line: string) => (text += line) };
    const services = { signal: AbortSignal.abort(), stderr, command: "npx flywheel" } as unknown as CliServices;
    await tellStopped({ folder: run, resume: ["train", "a b.json", "--resume"], json: false }, services);
    return text;
  };
  const goOn = "go on with: npx flywheel train 'a b.json' --resume\n";
  expect(await said()).toBe(`stopped after step 2; ${goOn}`);
  rmSync(join(run, "checkpoints/step-000002"), { recursive: true });
  expect(await said()).toBe(`stopped after step 2; the step after the checkpoint of step 1 will be taken again; ${goOn}`);
  rmSync(join(run, "checkpoints/step-000001"), { recursive: true });
  expect(await said()).toBe(`stopped after step 2, before the first checkpoint: a resumed run begins again; ${goOn}`);
});

test("an interruption before there is a run says so, with exit code 130", async () => {
  const { cwd, config } = await given();
  const { code, err } = await runFlywheel(["train", config], { cwd, signal: AbortSignal.abort(new Error("enough")) });
  expect([code, err]).toEqual([130, "stopped before the run began\n"]);
  expect(existsSync(join(cwd, "runs"))).toBe(false);
});

/** The whole of standard error is one line that says what is wrong, and there is no folder of a run. */
async function refused({ cwd, config }: Given, message: RegExp, ...more: readonly string[]): Promise<void> {
  const { code, out, err } = await runFlywheel(["train", config, ...more], { cwd });
  expect([code, out, err.split("\n").length, existsSync(join(cwd, "runs"))], err).toEqual([1, "", 2, false]);
  expect(err.trimEnd()).toMatch(message);
}

test("an unknown key is refused before the model is looked for", async () => {
  const made = await given({ model: { path: "/nowhere" }, algo: { name: "grpo", klCoeff: 0.1 } });
  await refused(made, /^error: algo: unknown key klCoeff \(did you mean klCoef\?\)$/);
});

test("a model path that leads nowhere", async () => {
  const made = await given({ model: { path: "/nowhere/model" } });
  await refused(made, /^error: .*\/nowhere\/model/);
});

test("an architecture that is not known", async () => {
  const made = await given();
  const path = join(made.model, "config.json");
  writeFileSync(
    path,
    JSON.stringify({ ...(JSON.parse(readFileSync(path, "utf8")) as object), architectures: ["MambaForCausalLM"], model_type: "mamba" }),
  );
  await refused(made, new RegExp(`^error: ${path} architectures: expected one of .*, got MambaForCausalLM$`));
  writeFileSync(path, JSON.stringify({ model_type: "llama", hidden_size: "64" }));
  await refused(made, new RegExp(`^error: ${path} \\S+: expected a number, got `));
});

test("a tokenizer without a chat template", async () => {
  const made = await given();
  const path = join(made.model, "tokenizer_config.json");
  const { chat_template: _, ...rest } = JSON.parse(readFileSync(path, "utf8")) as { chat_template: string };
  writeFileSync(path, JSON.stringify(rest));
  rmSync(join(made.model, "chat_template.jinja"), { force: true });
  await refused(made, /^error: tokenizer of .*: expected a chat template, got none/);
});

test("weights that end too early, and the next attempt with whole ones", { timeout: 300_000 }, async () => {
  const made = await given();
  const path = join(made.model, "model.safetensors");
  const whole = readFileSync(path);
  truncateSync(path, whole.length - 1000);
  await refused(
    made,
    /^error: .*model.safetensors: .* expected data up to offset \d+, got \d+ bytes of data; the file is truncated: fetch it again$/,
  );
  writeFileSync(path, whole);
  const { code, err } = await runFlywheel(["train", made.config], { cwd: made.cwd });
  expect([code, err.includes("error")], err).toEqual([0, false]);
  // Now the name is taken, and everything in the folder stays as it is.
  const before = await readRun(join(made.cwd, "runs", "run"));
  const again = await runFlywheel(["train", made.config], { cwd: made.cwd });
  expect(again.code).toBe(1);
  expect(again.err).toMatch(
    /error: run folder \S+: expected an empty or new folder, got a run of 3 steps; resume it, or use another name\n$/,
  );
  expect(await readRun(join(made.cwd, "runs", "run"))).toEqual(before);
});

test("a finished run goes on for more steps", { timeout: 300_000 }, async () => {
  const { cwd, config } = await given({ train: { steps: 1, evalEvery: 0, checkpointEvery: 1 } });
  expect((await runFlywheel(["train", config], { cwd })).code).toBe(0);
  const { code, out, err } = await runFlywheel(["train", config, "--set", "train.steps=2", "--resume", "--json"], { cwd });
  expect([code, JSON.parse(out)], err).toMatchObject([0, { steps: 2 }]);
  expect((await readRun(join(cwd, "runs", "run"))).config["train"]).toMatchObject({ steps: 2 });
});

test("weights of another shape, found when they are read, leave the name free", async () => {
  const made = await given();
  const path = join(made.model, "config.json");
  writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, "utf8")) as object), intermediate_size: 128 }));
  await refused(made, /^error: .*shape/);
});

test("a weight that is no number is named when the model is opened, and leaves no folder", async () => {
  const made = await given();
  const path = join(made.model, "model.safetensors");
  const bytes = readFileSync(path);
  const header = Number(bytes.readBigUInt64LE(0));
  type Entry = { readonly shape: readonly number[]; readonly data_offsets: readonly [number, number] };
  const entries = JSON.parse(bytes.toString("utf8", 8, 8 + header)) as Record<string, Entry>;
  const name = "model.layers.0.self_attn.q_proj.weight";
  const { shape, data_offsets: [begin] } = entries[name]!;
  bytes.writeFloatLE(NaN, 8 + header + begin + 4 * (2 * shape[1]! + 3));
  writeFileSync(path, bytes);
  const { code, err } = await runFlywheel(["train", made.config], { cwd: made.cwd });
  expect([code, existsSync(join(made.cwd, "runs"))]).toEqual([1, false]);
  expect(err.trimEnd().split("\n").at(-1)).toBe(
    `error: ${path}: ${name}: expected finite numbers, got NaN at [2, 3]; ` +
      "the weights are damaged: fetch them again, or take an earlier checkpoint",
  );
});

test("nothing to resume is refused without a folder", async () => {
  await refused(await given(), /^error: run folder \S+: expected a run to resume, got none; start it first/, "--resume");
});

test("a key that would reach a prototype is no configuration key", async () => {
  await refused(await given(), /^error: --set: expected a configuration key, got __proto__$/, "--set", "optim.__proto__=1");
});

test("an error shows no control characters of what it is about", async () => {
  const made = await given({ algo: { name: "grpo\u001b[31m\u009b2J\u0007" } });
  await refused(made, /^error: algo.name: expected .*, got "grpo\\u001b\[31m\ufffd2J\\u0007"$/);
  const config = join(made.cwd, "\u001b]0;title\u0007.json");
  await refused({ ...made, config }, /^error: configuration \S*\u241b\]0;title\u2407.json: expected a readable JSON file/);
});

test("a folder that holds something else is left alone", async () => {
  const made = await given();
  const folder = join(made.cwd, "runs", "run");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "thesis.txt"), "years of work");
  const { code, err } = await runFlywheel(["train", made.config], { cwd: made.cwd });
  expect([code, readdirSync(folder)]).toEqual([1, ["thesis.txt"]]);
  expect(err).toMatch(/error: run folder \S+: expected an empty or new folder, got other files \(thesis.txt\); use another name\n$/);
});
