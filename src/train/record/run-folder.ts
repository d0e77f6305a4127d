/**
 * The run folder: config.json, inputs.json, plan.json, ledger.jsonl, metrics.jsonl, trajectories/, checkpoints/. A step is written in
 * the order trajectories, metrics, ledger line; the ledger line commits it. On resume everything after the newest good checkpoint is
 * cut away, so that the resumed run writes the same lines again.
 */
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { RunError, amount, expected, onDisk } from "../../errors.ts";
import type { JsonObject } from "../../types.ts";
import { type Checkpoint, dropCheckpointsAfter, readCheckpoint } from "./checkpoint.ts";
import {
  appendLines,
  cutLines,
  listFolder,
  makeFolder,
  readLines,
  removeMade,
  removeTemporaries,
  syncFolder,
  writeWhole,
} from "./files.ts";
import { differences, runHash } from "./fingerprint.ts";
import { type LedgerEntry, checkNext, decodeLedger, encodeEntry } from "./ledger.ts";
import { type FolderLock, lockFolder } from "./lock.ts";
import { type MetricsRow, decodeMetricsRow, encodeMetricsRow } from "./metrics.ts";
import { readJsonObject, trajectoryFile } from "./read-run.ts";

/** What a run folder holds beside config.json. */
const RECORDS = ["inputs.json", "plan.json", "trajectories", "checkpoints", "ledger.jsonl", "metrics.jsonl"];

interface OpenRunOptions {
  readonly folder: string;
  readonly config: JsonObject;
  readonly plan: JsonObject;
  /** What the run reads beside its configuration (files by their path, its environment), each with a SHA-256 of what it holds. */
  readonly inputs?: Readonly<Record<string, string>>;
  readonly resume: boolean;
}

export interface StepRecord {
  readonly entry: LedgerEntry;
  readonly metrics: MetricsRow;
  /** Lines of `encodeRollout`, in the order of `entry.rollouts`. */
  readonly trajectories: readonly string[];
}

/**
 * Opens a new run, or (`resume`) continues one from its newest good checkpoint. Refuses a taken folder, another configuration
 * (naming the keys), inputs that have changed (naming them) and a folder that a living process writes to. What is refused leaves
 * no folder behind that was not there.
 */
export async function openRun(options: OpenRunOptions): Promise<Run> {
  const { folder, resume } = options;
  return onDisk(RunError, folder, async () => {
    const made = await makeFolder(folder);
    const home: RunHome = { folder, ...(made === undefined ? {} : { made }) };
    const lock = await lockFolder(folder).catch((cause: unknown) => leave(home, cause));
    try {
      await removeTemporaries(folder);
      return await (resume ? resumeRun(options, { ...home, lock }) : startRun(options, { ...home, lock }));
    } catch (cause) {
      await lock.release();
      return leave(home, cause);
    }
  });
}

interface RunHome {
  readonly folder: string;
  /** The first folder on the way to it that this opening made. */
  readonly made?: string;
}

type OpenedHome = RunHome & { readonly lock: FolderLock };

async function leave({ folder, made }: RunHome, cause: unknown): Promise<never> {
  if (made !== undefined) await removeMade(folder, made);
  throw cause;
}

/** A run that is open for writing by this process alone. */
export class Run implements AsyncDisposable {
  readonly folder: string;
  readonly config: JsonObject;
  readonly configHash: string;
  /** Where a resumed run continues; null: at its start. */
  readonly resumedFrom: Checkpoint | null;
  /** What a person should know of the opening, for example that a damaged checkpoint was passed over. */
  readonly notes: readonly string[];
  readonly #home: OpenedHome;
  readonly #fresh: boolean;
  #discarded = false;
  readonly #ledger: LedgerEntry[];

  constructor(state: RunState, home: OpenedHome) {
    this.folder = state.folder;
    this.config = state.config;
    this.configHash = runHash(state.config);
    this.resumedFrom = state.resumedFrom;
    this.notes = state.notes;
    this.#ledger = [...state.ledger];
    this.#home = home;
    this.#fresh = state.fresh;
  }

  get ledger(): readonly LedgerEntry[] {
    return this.#ledger;
  }
  /** The last committed step; 0 before the first. */
  get lastStep(): number {
    return this.#ledger.length;
  }

  /** Writes one step durably; it is committed when this returns, and absent if the process dies before. */
  async commitStep(record: StepRecord): Promise<void> {
    const { entry, metrics, trajectories } = record;
    const where = `run folder ${this.folder}`;
    checkNext(entry, this.lastStep, where);
    if (metrics.step !== entry.step) throw new RunError(expected(`${where}: metrics`, `step ${entry.step}`, `step ${metrics.step}`));
    if (trajectories.length !== entry.rollouts.length) {
      throw new RunError(expected(`${where}: step ${entry.step}`, `${entry.rollouts.length} trajectories`, String(trajectories.length)));
    }
    await onDisk(RunError, this.folder, async () => {
      await writeWhole(trajectoryFile(this.folder, "step", entry.step), trajectories.map((line) => `${line}\n`).join(""));
      await appendLines(join(this.folder, "metrics.jsonl"), [encodeMetricsRow(metrics)]);
      await appendLines(join(this.folder, "ledger.jsonl"), [encodeEntry(entry)]);
    });
    this.#ledger.push(entry);
  }

  /** Adds an evaluation after the last committed step; call it before the checkpoint of that step. */
  async recordEvaluation(metrics: MetricsRow, trajectories: readonly string[]): Promise<void> {
    if (metrics.step !== this.lastStep) {
      throw new RunError(expected(`run folder ${this.folder}: evaluation`, `step ${this.lastStep}`, `step ${metrics.step}`));
    }
    await onDisk(RunError, this.folder, async () => {
      await writeWhole(trajectoryFile(this.folder, "eval", metrics.step), trajectories.map((line) => `${line}\n`).join(""));
      await appendLines(join(this.folder, "metrics.jsonl"), [encodeMetricsRow(metrics)]);
    });
  }

  /** Takes back the opening of a new run that has committed nothing; closing then removes its folder too, if the run made it. */
  async discard(): Promise<void> {
    if (!this.#fresh || this.lastStep > 0) return;
    for (const part of [...RECORDS, "config.json"].reverse()) await rm(join(this.folder, part), { recursive: true, force: true });
    this.#discarded = true;
  }

  async close(): Promise<void> {
    const { folder, made, lock } = this.#home;
    await lock.release();
    if (this.#discarded && made !== undefined) await removeMade(folder, made);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

interface RunState {
  /** Started by this opening. */
  readonly fresh: boolean;
  readonly folder: string;
  readonly config: JsonObject;
  readonly ledger: readonly LedgerEntry[];
  readonly resumedFrom: Checkpoint | null;
  readonly notes: readonly string[];
}

async function startRun({ folder, config, plan, inputs = {} }: OpenRunOptions, home: OpenedHome): Promise<Run> {
  const names = await listFolder(folder);
  if (names.includes("config.json")) {
    const { lines } = await readLines(join(folder, "ledger.jsonl"));
    const got = `a run of ${amount(lines.length, "step")}`;
    throw new RunError(expected(`run folder ${folder}`, "an empty or new folder", got, "resume it, or use another name"));
  }
  // What an opening that died early left behind counts as empty.
  const foreign = names.filter((name) => !["lock", ...RECORDS].includes(name));
  if (foreign.length > 0) {
    throw new RunError(expected(`run folder ${folder}`, "an empty or new folder", `other files (${foreign[0]})`, "use another name"));
  }
  for (const part of ["trajectories", "checkpoints"]) await makeFolder(join(folder, part));
  for (const part of ["ledger.jsonl", "metrics.jsonl"]) await writeWhole(join(folder, part), "");
  // The configuration goes last: with it the folder is a run.
  for (const [part, value] of [["inputs.json", inputs], ["plan.json", plan], ["config.json", config]] as const) {
    await writeWhole(join(folder, part), `${JSON.stringify(value, null, 2)}\n`);
  }
  await syncFolder(folder);
  return new Run({ fresh: true, folder, config, ledger: [], resumedFrom: null, notes: [] }, home);
}

async function resumeRun({ folder, config, plan, inputs = {} }: OpenRunOptions, home: OpenedHome): Promise<Run> {
  if (!(await listFolder(folder)).includes("config.json")) {
    throw new RunError(expected(`run folder ${folder}`, "a run to resume", "none", "start it first, or check its name"));
  }
  const stored = await readJsonObject(join(folder, "config.json"));
  checkIdentity(folder, stored, config);
  await checkInputs(folder, inputs);
  const ledger = decodeLedger((await readLines(join(folder, "ledger.jsonl"))).lines, join(folder, "ledger.jsonl"));
  const { checkpoint, damaged } = await readCheckpoint({ folder, configHash: runHash(config), lastStep: ledger.length });
  const extended = await changeSteps({ folder, config, plan }, { stored, committed: ledger.length });
  const keep = checkpoint?.manifest.step ?? 0;
  await cutAfter(folder, { ledgerLines: keep, lastRow: checkpoint === null ? -1 : keep });
  await dropCheckpointsAfter(folder, checkpoint === null ? -1 : keep);
  const notes = [...extended, ...openingNotes(damaged, checkpoint, ledger.length)];
  return new Run({ fresh: false, folder, config, ledger: ledger.slice(0, keep), resumedFrom: checkpoint, notes }, home);
}

function checkIdentity(folder: string, stored: JsonObject, config: JsonObject): void {
  if (runHash(stored) === runHash(config)) return;
  const keys = differences(stored, config);
  const stretched = keys.length === 1 && keys[0]!.startsWith("train.steps ");
  const remedy = stretched
    ? "its learning rate ends at 0 and would be stretched: only a run with a constant schedule can be made longer"
    : "restore it, or use another name";
  throw new RunError(expected(`run folder ${folder}`, "the configuration it was started with", `another: ${keys.join(", ")}`, remedy));
}

/** Another number of steps than before, where nothing else depends on it: noted in the folder, and told. */
async function changeSteps(
  { folder, config, plan }: Pick<OpenRunOptions, "folder" | "config" | "plan">,
  { stored, committed }: { readonly stored: JsonObject; readonly committed: number },
): Promise<string[]> {
  const [before, steps] = [stepsOf(stored), stepsOf(config)];
  if (before === undefined || steps === undefined || before === steps) return [];
  if (steps < committed)
    throw new RunError(expected(`run folder ${folder}: train.steps`, `at least ${committed}, the steps that are done`, String(steps)));
  await writeWhole(join(folder, "plan.json"), `${JSON.stringify(plan, null, 2)}\n`);
  await writeWhole(join(folder, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  return [`the run now has ${amount(steps, "step")} instead of ${before}`];
}

function stepsOf({ train }: JsonObject): number | undefined {
  const steps = typeof train === "object" && train !== null && "steps" in train ? train.steps : undefined;
  return typeof steps === "number" ? steps : undefined;
}

/** What the run read when it began is in inputs.json; all of it must be there again, as it was, and nothing else. */
async function checkInputs(folder: string, inputs: Readonly<Record<string, string>>): Promise<void> {
  const stored = await readJsonObject(join(folder, "inputs.json"));
  for (const path of new Set([...Object.keys(stored), ...Object.keys(inputs)])) {
    const [before, now] = [stored[path], inputs[path]];
    if (before === now) continue;
    const want = typeof before === "string" ? `${path} as it was when the run began (SHA-256 ${before.slice(0, 12)}…)` : `no input ${path}`;
    const got = now === undefined ? "none" : `${before === undefined ? "one" : "another content"} (${now.slice(0, 12)}…)`;
    throw new RunError(expected(`run folder ${folder}`, want, got, "restore it, or use another name"));
  }
}

function openingNotes(damaged: readonly string[], checkpoint: Checkpoint | null, committed: number): string[] {
  const from = checkpoint === null ? "the start" : `checkpoint ${checkpoint.name}`;
  const notes = damaged.map((reason) => `${reason}; passed over, continuing from ${from}`);
  const again = committed - (checkpoint?.manifest.step ?? 0);
  return again === 0 ? notes : [...notes, `${amount(again, "step")} after ${from} ${again === 1 ? "is" : "are"} taken again`];
}

/** The ledger goes first: from then on readers do not count the rest, so a kill in between leaves a valid prefix. */
async function cutAfter(folder: string, to: { readonly ledgerLines: number; readonly lastRow: number }): Promise<void> {
  await cutLines(join(folder, "ledger.jsonl"), to.ledgerLines);
  const metrics = join(folder, "metrics.jsonl");
  const rows = (await readLines(metrics)).lines.map((line, index) => decodeMetricsRow(line, `${metrics} line ${index + 1}`));
  const first = rows.findIndex((row) => row.step > to.lastRow);
  await cutLines(metrics, first === -1 ? rows.length : first);
  await removeTrajectoriesAfter(join(folder, "trajectories"), to.lastRow);
}

async function removeTrajectoriesAfter(folder: string, lastStep: number): Promise<void> {
  await removeTemporaries(folder);
  for (const name of await listFolder(folder)) {
    const step = Number(/^(?:step|eval)-(\d+)\.jsonl$/.exec(basename(name))?.[1] ?? -1);
    if (step > lastStep) await rm(join(folder, name), { force: true });
  }
  await syncFolder(folder);
}
