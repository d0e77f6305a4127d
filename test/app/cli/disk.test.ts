/** What the file system refuses: one line that says where, what was expected, what was found and what to do; nothing is left behind. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder, writeTinyModel, writeTinyRun } from "../../fakes/model-folders.ts";

async function setUp() {
  const cwd = await temporaryFolder();
  const model = await writeTinyModel(join(cwd, "model"), "llama", { max_position_embeddings: 256 });
  await writeTinyRun(join(cwd, "run"), model);
  writeFileSync(join(cwd, "file"), "");
  writeFileSync(join(cwd, "config.json"), JSON.stringify({
    name: "new",
    model: { path: model, adapter: "full" },
    env: { name: "sums" },
    algo: { name: "grpo", groupSize: 2, klCoef: 0.01 },
    rollout: { tasksPerStep: 2, maxTokens: 6 },
    train: { steps: 2, evalEvery: 0, checkpointEvery: 1 },
  }));
  return { cwd, flywheel: (...args: string[]) => runFlywheel(args, { cwd, environment: { FLYWHEEL_CACHE: join(cwd, "file") } }) };
}

// Everybody is refused in /sys, root too: EPERM, or EACCES without privileges.
const forbidden = "/sys/fs";
const below = /file\S*: expected \S.*, got a file .*\((ENOTDIR|EEXIST)\); \S/;

test.each([
  ["train, a file where the runs go", ["train", "config.json", "--runs", "file"], below],
  ["train, a place that is forbidden", ["train", "config.json", "--runs", forbidden], /\/sys\/fs\/new: expected permission .*\(E/],
  ["resume, a file where the runs go", ["train", "config.json", "--runs", "file", "--resume"], below],
  ["a configuration that is a folder", ["train", "model"], /configuration \S*model: expected a readable JSON file, got EISDIR/],
  ["export below a file", ["export", "run", "--to", "file/out"], below],
  ["export to a forbidden place", ["export", "run", "--to", `${forbidden}/a/out.gguf`], /\/sys\/fs\/a: expected permission .*\(E/],
  ["report of a file", ["report", "file/run"], /run file\/run: expected a run folder \(with config.json\), got none; give the path/],
  ["pull into a file", ["pull", "org/tiny"], /^error: .*(ENOTDIR|EEXIST|answer)/],
  ["verify of a folder", ["verify", "model", "-V", "math"], /verify \S*model: expected a .jsonl, .csv or .parquet file, .*, got no/],
])("%s", async (_, args, message) => {
  const { cwd, flywheel } = await setUp();
  const before = readdirSync(cwd).sort();
  const { code, out, err } = await flywheel(...args);
  expect([code, out, err.split("\n").length], err).toEqual([1, "", 2]);
  expect(err).toMatch(/^error: /);
  expect(err.trimEnd()).toMatch(message);
  expect(readdirSync(cwd).sort()).toEqual(before);
});

test("a report that cannot be written is one line", async () => {
  const { cwd, flywheel } = await setUp();
  writeFileSync(join(cwd, "run", "report"), "mine");
  const { code, err } = await flywheel("report", join(cwd, "run"));
  expect([code, err.split("\n").length], err).toEqual([1, 2]);
  expect(err).toMatch(/^error: \S*run\/report: expected a free name, got a file that has it \(EEXIST\); choose another name, or remove/);
  expect(readFileSync(join(cwd, "run", "report"), "utf8")).toBe("mine");
});

/** A small disk, where this machine lets one be mounted; undefined elsewhere. */
async function smallDisk(kilobytes: number): Promise<string | undefined> {
  const folder = join(await temporaryFolder(), "disk");
  mkdirSync(folder);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${kilobytes}k`, "tmpfs", folder], { stdio: "ignore" });
  } catch {
    console.log("no file system can be mounted here: a full disk is tested with /dev/full and in test/errors.test.ts alone");
    return undefined;
  }
  onTestFinished(() => void execFileSync("umount", ["-l", folder]));
  return folder;
}

test("a full disk: train and export say so and leave what can be gone on with", { timeout: 120_000 }, async () => {
  const disk = await smallDisk(100);
  if (disk === undefined) return;
  const { flywheel } = await setUp();
  const exported = await flywheel("export", "run", "--to", join(disk, "a/out.onnx"));
  expect(exported.err).toMatch(/^error: \S+: expected room on the disk, got a full disk \(ENOSPC\); free some space and try again\n$/);
  expect([exported.code, readdirSync(disk)]).toEqual([1, []]);
  const trained = await flywheel("train", "config.json", "--runs", disk);
  expect(trained.code).toBe(1);
  expect(trained.err.trimEnd().split("\n").at(-1)).toMatch(/^error: \S+: expected room on the disk, got a full disk \(ENOSPC\); free some/);
  expect(readdirSync(join(disk, "new", "checkpoints"))).toEqual([]);
  expect(existsSync(join(disk, "new", "lock"))).toBe(false);
});
