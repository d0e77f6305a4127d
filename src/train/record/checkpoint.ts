/**
 * Checkpoints: `checkpoints/step-000010/` holds the engine's files and one manifest with their hashes. The folder is written
 * under a temporary name and renamed into place; that rename is the commit, so a checkpoint is complete or absent.
 */
import { readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { z } from "zod";
import { RunError, expected, messageOf, onDisk } from "../../errors.ts";
import type { JsonObject } from "../../types.ts";
import {
  hasCode,
  listFolder,
  makeFolder,
  removeTemporaries,
  sha256File,
  syncFolder,
  syncTree,
  temporaryName,
  writeWhole,
} from "./files.ts";
import { fingerprint } from "./fingerprint.ts";

const MANIFEST = "manifest.json";

const jsonSchema: z.ZodType<JsonObject> = z.record(z.string(), z.json());
const manifestSchema = z.strictObject({
  format: z.literal(1),
  step: z.int().nonnegative(),
  configHash: z.string(),
  /** Committed steps at the time of writing; equal to `step` unless it was written before training. */
  ledgerLines: z.int().nonnegative(),
  /** Larger is better; null if the checkpoint was not evaluated. */
  score: z.number().nullable(),
  files: z.record(z.string(), z.strictObject({ bytes: z.int(), sha256: z.string() })),
  extra: jsonSchema,
  /** Hash of all the other fields. */
  seal: z.string(),
});
type CheckpointManifest = z.infer<typeof manifestSchema>;

export interface Checkpoint {
  readonly name: string;
  /** Give it to `engine.load`. */
  readonly folder: string;
  readonly manifest: CheckpointManifest;
}

/** What a checkpoint needs to know of its run. */
export interface CheckpointHome {
  readonly folder: string;
  readonly configHash: string;
  readonly lastStep: number;
}

interface CheckpointOptions {
  readonly step: number;
  /** Writes weights, moments and counters into the given folder (`engine.save`). */
  readonly save: (folder: string) => Promise<void>;
  readonly extra: JsonObject;
  /** A held-out measure, larger is better; the best checkpoint is kept whatever its age. */
  readonly score?: number;
  /** How many of the newest are kept besides the best; default 2, so that a damaged newest one has a predecessor. */
  readonly keep?: number;
}

export function checkpointName(step: number): string {
  return `step-${String(step).padStart(6, "0")}`;
}

/** Commits a checkpoint of a committed step (or of step 0), then removes those that are no longer to be kept. */
export async function writeCheckpoint(run: CheckpointHome, options: CheckpointOptions): Promise<Checkpoint> {
  const { step, save, extra, score = null, keep = 2 } = options;
  const home = join(run.folder, "checkpoints");
  const name = checkpointName(step);
  const folder = join(home, name);
  if (step !== run.lastStep) throw new RunError(expected(`checkpoint ${name}`, `the last committed step ${run.lastStep}`, String(step)));
  if ((await listFolder(home)).includes(name)) throw new RunError(expected(`checkpoint ${name}`, "not to exist", "one written before"));
  const temporary = temporaryName(folder);
  return onDisk(RunError, folder, async () => {
    await makeFolder(temporary);
    try {
      await save(temporary);
      const body = {
        format: 1 as const,
        step,
        configHash: run.configHash,
        ledgerLines: run.lastStep,
        score,
        files: await hashTree(temporary),
        extra,
      };
      const manifest: CheckpointManifest = { ...body, seal: fingerprint(body) };
      await writeWhole(join(temporary, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
      await syncTree(temporary);
      await rename(temporary, folder);
      await syncFolder(home);
      await prune(home, keep);
      return { name, folder, manifest };
    } catch (cause) {
      await rm(temporary, { recursive: true, force: true });
      throw cause;
    }
  });
}

/**
 * The newest checkpoint whose hashes hold, or null; `damaged` states for each newer one what is wrong with it.
 * Every file is read, so this takes about a second a gigabyte.
 */
export async function readCheckpoint(
  run: CheckpointHome,
): Promise<{ readonly checkpoint: Checkpoint | null; readonly damaged: readonly string[] }> {
  const home = join(run.folder, "checkpoints");
  const damaged: string[] = [];
  for (const name of (await checkpointNames(home)).reverse()) {
    try {
      return { checkpoint: await verify(home, name, run), damaged };
    } catch (cause) {
      damaged.push(messageOf(cause));
    }
  }
  return { checkpoint: null, damaged };
}

/** The step of the newest checkpoint that is there, intact or not; 0 if there is none. Looks at names alone. */
export async function newestCheckpoint(folder: string): Promise<number> {
  return Number((await checkpointNames(join(folder, "checkpoints"))).at(-1)?.slice("step-".length) ?? 0);
}

/** Which checkpoint of a run: the newest intact one, the one with the best held-out score, or that of a step. */
export type CheckpointChoice = "latest" | "best" | number;

/** The chosen checkpoint, its hashes verified. RunError if there is none, or if it is damaged. */
export async function findCheckpoint(run: CheckpointHome, choice: CheckpointChoice): Promise<Checkpoint> {
  const home = join(run.folder, "checkpoints");
  const names = await checkpointNames(home);
  const steps = names.map((name) => Number(name.slice("step-".length)));
  const where = `run ${run.folder}`;
  if (names.length === 0) throw new RunError(expected(where, "a checkpoint", "none yet", "let it train further"));
  if (choice === "latest") {
    const { checkpoint, damaged } = await readCheckpoint(run);
    if (checkpoint === null) throw new RunError(expected(where, "an intact checkpoint", damaged.join("; ")));
    return checkpoint;
  }
  const name = choice === "best" ? await bestOf(home, names) : checkpointName(choice);
  if (name === null) throw new RunError(expected(where, "a checkpoint with a held-out score", "none", "choose latest or a step"));
  if (!names.includes(name)) throw new RunError(expected(where, `a checkpoint of step ${choice}`, "none", `there are ${steps.join(", ")}`));
  return verify(home, name, run);
}

/** Takes away everything newer than `step` and what an interrupted writing left. It is kept aside, under a name that says why. */
export async function dropCheckpointsAfter(folder: string, step: number, why: "damaged" | "collapsed" = "damaged"): Promise<void> {
  const home = join(folder, "checkpoints");
  await removeTemporaries(home);
  for (const name of await checkpointNames(home)) {
    if (name <= checkpointName(step) && step >= 0) continue;
    const aside = join(home, `${why}-${name}`);
    await rm(aside, { recursive: true, force: true });
    await rename(join(home, name), aside);
  }
  if ((await listFolder(home)).length > 0) await syncFolder(home);
}

async function checkpointNames(home: string): Promise<string[]> {
  return (await listFolder(home)).filter((name) => /^step-\d{6,}$/.test(name));
}

async function readManifest(home: string, name: string): Promise<CheckpointManifest> {
  let manifest: CheckpointManifest;
  try {
    manifest = manifestSchema.parse(JSON.parse(await readFile(join(home, name, MANIFEST), "utf8")));
  } catch (cause) {
    throw new RunError(expected(`checkpoint ${name}`, "a complete manifest.json", "a missing or damaged one"), { cause });
  }
  const { seal, ...body } = manifest;
  if (fingerprint(body) !== seal) throw new RunError(expected(`checkpoint ${name}`, "a manifest as it was written", "a changed one"));
  return manifest;
}

async function verify(home: string, name: string, run: CheckpointHome): Promise<Checkpoint> {
  const folder = join(home, name);
  const manifest = await readManifest(home, name);
  const where = `checkpoint ${name}`;
  if (manifest.configHash !== run.configHash) throw new RunError(expected(where, "this run's configuration", "another one's"));
  if (manifest.ledgerLines > run.lastStep) {
    throw new RunError(expected(where, `a ledger of at least ${manifest.ledgerLines} steps`, `${run.lastStep} steps`));
  }
  for (const [path, { bytes, sha256 }] of Object.entries(manifest.files)) {
    const found = await sizeOf(join(folder, path));
    if (found !== bytes)
      throw new RunError(expected(`${where}, file ${path}`, `${bytes} bytes`, found === null ? "no file" : `${found} bytes`));
    if ((await sha256File(join(folder, path))) !== sha256)
      throw new RunError(expected(`${where}, file ${path}`, "the written content", "another one"));
  }
  return { name, folder, manifest };
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (cause) {
    if (hasCode(cause, "ENOENT", "ENOTDIR")) return null;
    throw cause;
  }
}

async function hashTree(folder: string): Promise<CheckpointManifest["files"]> {
  const files: CheckpointManifest["files"] = {};
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const path of paths.sort()) {
    const name = relative(folder, path).split(sep).join("/");
    files[name] = { bytes: (await stat(path)).size, sha256: await sha256File(path) };
  }
  return files;
}

async function prune(home: string, keep: number): Promise<void> {
  const names = await checkpointNames(home);
  const kept = new Set(names.slice(-Math.max(1, keep)));
  const best = await bestOf(home, names);
  if (best !== null) kept.add(best);
  for (const name of names) {
    if (kept.has(name)) continue;
    // Renamed first: a removal that is interrupted never leaves half a checkpoint under its name.
    const aside = temporaryName(join(home, name));
    await rename(join(home, name), aside);
    await rm(aside, { recursive: true, force: true });
  }
}

async function bestOf(home: string, names: readonly string[]): Promise<string | null> {
  let best: { readonly name: string; readonly score: number } | null = null;
  for (const name of names) {
    const manifest = await readManifest(home, name).catch(() => null);
    if (manifest === null || manifest.score === null) continue;
    if (best === null || manifest.score > best.score) best = { name, score: manifest.score };
  }
  return best?.name ?? null;
}
