import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type CheckpointHome, readCheckpoint, writeCheckpoint } from "../../../src/train/record/checkpoint.ts";

function home(lastStep = 0): CheckpointHome {
  const folder = mkdtempSync(join(tmpdir(), "flywheel-checkpoint-"));
  mkdirSync(join(folder, "checkpoints"));
  return { folder, configHash: "abc", lastStep };
}

const save = async (folder: string): Promise<void> => {
  mkdirSync(join(folder, "optimiser"));
  writeFileSync(join(folder, "weights.safetensors"), "weights");
  writeFileSync(join(folder, "optimiser", "moments.bin"), "moments");
};

async function writeMany(run: CheckpointHome, scores: readonly (number | undefined)[], keep?: number): Promise<void> {
  for (const [index, score] of scores.entries()) {
    const options = {
      step: index + 1,
      save,
      extra: {},
      ...(score === undefined ? {} : { score }),
      ...(keep === undefined ? {} : { keep }),
    };
    await writeCheckpoint({ ...run, lastStep: index + 1 }, options);
  }
}

const names = (run: CheckpointHome): string[] => readdirSync(join(run.folder, "checkpoints")).sort();

test("a checkpoint reads back with its hashes and extra", async () => {
  const run = home(10);
  await writeCheckpoint(run, { step: 10, save, extra: { version: 10, note: "é" } });
  const { checkpoint, damaged } = await readCheckpoint(run);
  expect(damaged).toEqual([]);
  expect(checkpoint?.name).toBe("step-000010");
  expect(checkpoint?.manifest.extra).toEqual({ version: 10, note: "é" });
  expect(Object.keys(checkpoint?.manifest.files ?? {})).toEqual(["optimiser/moments.bin", "weights.safetensors"]);
  // sha256 of "weights" as sha256sum prints it
  expect(checkpoint?.manifest.files["weights.safetensors"]).toEqual({
    bytes: 7,
    sha256: "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c",
  });
});

test("a failing save leaves nothing", async () => {
  const run = home(1);
  const failing = async (folder: string): Promise<void> => {
    writeFileSync(join(folder, "half"), "");
    throw new Error("disk full");
  };
  await expect(writeCheckpoint(run, { step: 1, save: failing, extra: {} })).rejects.toThrow("disk full");
  expect(names(run)).toEqual([]);
  expect((await readCheckpoint(run)).checkpoint).toBeNull();
});

test("the newest two and the best are kept", async () => {
  const run = home();
  await writeMany(run, [0.1, 0.9, 0.3, undefined, 0.5], 2);
  expect(names(run)).toEqual(["step-000002", "step-000004", "step-000005"]);
});

test("each kind of damage is stated and the previous good checkpoint is read", async () => {
  const run = { ...home(), lastStep: 6 };
  await writeMany(run, [undefined, undefined, undefined, undefined, undefined, undefined], 6);
  const path = (step: number, file: string): string => join(run.folder, "checkpoints", `step-00000${step}`, file);
  writeFileSync(path(6, "weights.safetensors"), "Weights");
  appendFileSync(path(5, "optimiser/moments.bin"), "x");
  writeFileSync(path(4, "manifest.json"), '{"format":1');
  writeFileSync(path(3, "manifest.json"), readFileSync(path(3, "manifest.json"), "utf8").replace('"step": 3', '"step": 2'));
  const { checkpoint, damaged } = await readCheckpoint(run);
  expect(checkpoint?.name).toBe("step-000002");
  expect(damaged).toEqual([
    "checkpoint step-000006, file weights.safetensors: expected the written content, got another one",
    "checkpoint step-000005, file optimiser/moments.bin: expected 7 bytes, got 8 bytes",
    "checkpoint step-000004: expected a complete manifest.json, got a missing or damaged one",
    "checkpoint step-000003: expected a manifest as it was written, got a changed one",
  ]);
});

test("a checkpoint of another configuration or ahead of the ledger is not used", async () => {
  const run = home(4);
  await writeCheckpoint(run, { step: 4, save, extra: {} });
  expect((await readCheckpoint({ ...run, configHash: "other" })).damaged).toEqual([
    "checkpoint step-000004: expected this run's configuration, got another one's",
  ]);
  expect((await readCheckpoint({ ...run, lastStep: 3 })).damaged).toEqual([
    "checkpoint step-000004: expected a ledger of at least 4 steps, got 3 steps",
  ]);
  await expect(writeCheckpoint(run, { step: 3, save, extra: {} })).rejects.toThrow("expected the last committed step 4, got 3");
  await expect(writeCheckpoint(run, { step: 4, save, extra: {} })).rejects.toThrow("one written before");
});
