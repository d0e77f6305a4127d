/**
 * One adapter that learns while it answers. It is trained in arrays of its own and served from copies: an update that is accepted is
 * copied into a copy that no answer is being sampled from, so answers that have begun go on with the weights that they began with.
 * States on disk are named by the feedback that they end with; the newest complete one that is not undone is the truth.
 */
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { LocalEngine } from "../../compute/policy/local/engine.ts";
import { ConfigError, expected } from "../../errors.ts";
import { permutation, rng } from "../../random.ts";
import type { Json } from "../../types.ts";
import { listFolder, makeFolder, removeTemporaries, syncFolder, syncTree, temporaryName, writeWhole } from "../record/files.ts";
import { readJsonObject } from "../record/read-run.ts";
import { Journal, type FeedbackEntry, type Lesson, type LessonRow, type Outcome, type Told } from "./journal.ts";
import { boundedUpdate, gainOf, type Measured, type UpdateSettings } from "./update.ts";

export interface AdapterSettings extends UpdateSettings {
  readonly rank: number;
  readonly alpha: number;
  /** Weight of the preferred answer's likelihood beside DPO. */
  readonly likelihood: number;
  /** Earlier pieces of feedback that are trained along with a new one. */
  readonly replay: number;
  /** Updates that can be undone; older states are deleted. */
  readonly undoDepth: number;
  readonly seed: number;
}

export interface Learned {
  readonly id: string;
  readonly adapter: string;
  /** learned: the weights moved; held: a bound would have been broken, nothing changed; recorded: there was nothing to learn. */
  readonly outcome: Outcome;
  /** Updates that the adapter has learned, this one included. */
  readonly version: number;
  readonly before?: Measured;
  readonly after?: Measured;
  /** Nats by which the preferred side gained on the other one, over all lessons. */
  readonly gain?: number;
  readonly learningRate?: number;
  readonly reason?: string;
  readonly seconds: number;
}

interface OpenOptions {
  readonly engine: LocalEngine;
  readonly folder: string;
  readonly name: string;
  /** Name of the trained adapter in the engine; its served copies are called after it. */
  readonly engineName: string;
  /** What it starts from: "policy" (a trained run) or "base". */
  readonly from: string;
  readonly settings: AdapterSettings;
}

interface LearnContext {
  readonly answers: readonly LessonRow[];
  readonly guard: readonly LessonRow[];
}

export class OnlineAdapter {
  readonly name: string;
  readonly journal: Journal;
  readonly #options: OpenOptions;
  readonly #copies: string[] = [];
  #served = "";

  private constructor(options: OpenOptions, journal: Journal) {
    this.#options = options;
    this.name = options.name;
    this.journal = journal;
  }

  /** Opens the adapter at its last state; feedback that was acknowledged and not learned is left in `pending`. */
  static async open(options: OpenOptions): Promise<OnlineAdapter> {
    const { engine, folder, engineName, from, settings } = options;
    await makeFolder(join(folder, "states"));
    await removeTemporaries(join(folder, "states"));
    const journal = await Journal.open(join(folder, "journal.jsonl"));
    const adapter = new OnlineAdapter(options, journal);
    const { rank, alpha, seed } = settings;
    engine.addAdapter(engineName, { from, rank, alpha, seed, scalarHead: false, trained: true });
    await adapter.#settle();
    const states = await listFolder(adapter.#states);
    if (!states.includes(start)) await adapter.#writeState(start, null);
    await adapter.#load();
    adapter.#serve();
    return adapter;
  }

  get #states(): string {
    return join(this.#options.folder, "states");
  }

  /** The engine's adapter that new answers are sampled from. */
  get served(): string {
    return this.#served;
  }

  get #stack(): Told[] {
    return this.journal.told.filter(({ outcome, undone }) => outcome === "learned" && !undone);
  }

  /** Updates learned and not undone. */
  get version(): number {
    return this.#stack.length;
  }

  /** Acknowledged and not learned yet: the process ended in between. */
  get pending(): readonly FeedbackEntry[] {
    return this.journal.told.filter(({ outcome, undone }) => outcome === undefined && !undone).map(({ entry }) => entry);
  }

  /** A state that was complete when the process ended, with its outcome not yet in the journal, is taken. */
  async #settle(): Promise<void> {
    const states = await listFolder(this.#states);
    for (const { id } of this.pending) {
      if (!states.includes(id)) continue;
      const { result } = await readJsonObject(join(this.#states, id, "learned.json"));
      await this.journal.add({ type: "outcome", of: id, outcome: "learned", result: result ?? null });
    }
  }

  #current(): string {
    return this.#stack.at(-1)?.entry.id ?? start;
  }

  #load(): Promise<void> {
    return this.#options.engine.loadAdapterState(this.#options.engineName, join(this.#states, this.#current()));
  }

  async #writeState(id: string, result: Json): Promise<void> {
    const { engine, engineName } = this.#options;
    const path = join(this.#states, id);
    const temporary = temporaryName(path);
    await mkdir(temporary);
    await engine.saveAdapterState(engineName, temporary);
    await writeWhole(join(temporary, "learned.json"), `${JSON.stringify({ id, result })}\n`);
    await syncTree(temporary);
    await rename(temporary, path);
    await syncFolder(this.#states);
  }

  /** Copies the trained weights into a copy that is not being sampled, and serves that one from now on. */
  #serve(): void {
    const { engine, engineName, settings } = this.#options;
    const free = this.#copies.find((copy) => copy !== this.#served && !engine.sampler.isSampling(copy));
    if (free !== undefined) engine.blendAdapter(engineName, free, 0);
    const next = free ?? `${engineName}-${this.#copies.length}`;
    if (free === undefined) {
      const { rank, alpha, seed } = settings;
      engine.addAdapter(next, { from: engineName, rank, alpha, seed, scalarHead: false, trained: false });
      this.#copies.push(next);
    }
    this.#served = next;
  }

  /** Learns one acknowledged piece of feedback; its outcome is durable on return. */
  async learn({ id, lessons }: FeedbackEntry, watched: LearnContext): Promise<Learned> {
    const started = performance.now();
    const { engine, engineName, settings } = this.#options;
    const seconds = (): number => (performance.now() - started) / 1000;
    const done = async (outcome: Outcome, facts: Partial<Learned>): Promise<Learned> => {
      const version = this.version + (outcome === "learned" ? 1 : 0);
      const learned: Learned = { id, adapter: this.name, outcome, version, ...facts, seconds: seconds() };
      const result = JSON.parse(JSON.stringify(learned)) as Json;
      if (outcome === "learned") await this.#writeState(id, result);
      await this.journal.add({ type: "outcome", of: id, outcome, result });
      return learned;
    };
    if (lessons.length === 0) return done("recorded", { reason: "a score in the middle says nothing to learn" });
    const replayed = this.#replayed(id);
    const restore = (): Promise<void> => this.#load();
    const update = await boundedUpdate(engine, { adapter: engineName, settings, lessons, replayed, watched, restore });
    const { before } = update;
    if (update.type === "held") return done("held", { before, reason: update.reason });
    const { after, learningRate } = update;
    const gain = after.lessons.reduce((sum, lesson, i) => sum + gainOf(lesson, before.lessons[i]!), 0);
    const learned = await done("learned", { before, after, gain, learningRate });
    this.#serve();
    await this.#forgetOld();
    return learned;
  }

  /** Lessons of earlier feedback, drawn anew for each update. */
  #replayed(id: string): Lesson[] {
    const { replay, seed } = this.#options.settings;
    const earlier = this.#stack.map(({ entry }) => entry);
    const order = permutation(rng(seed, "replay", this.name, id), earlier.length);
    return order.slice(0, replay).flatMap((index) => earlier[index]!.lessons);
  }

  /** Takes the last update back, bitwise; returns the feedback that is no longer learned. */
  async undo(): Promise<Told> {
    const last = this.#stack.at(-1);
    if (last === undefined) throw new ConfigError(expected(`undo ${this.name}`, "an update to take back", "none"));
    const before = this.#stack.at(-2)?.entry.id ?? start;
    if (!(await listFolder(this.#states)).includes(before)) {
      const want = `one of the last ${this.#options.settings.undoDepth} updates`;
      throw new ConfigError(expected(`undo ${this.name}`, want, "an older one, whose state was deleted", "raise undoDepth"));
    }
    await this.journal.add({ type: "undo", of: last.entry.id, at: new Date().toISOString() });
    await this.#load();
    this.#serve();
    await rm(join(this.#states, last.entry.id), { recursive: true, force: true });
    return last;
  }

  /** The opened state and the last `undoDepth` are kept, and the one before them. */
  async #forgetOld(): Promise<void> {
    const keep = new Set([start, ...this.#stack.slice(-this.#options.settings.undoDepth - 1).map(({ entry }) => entry.id)]);
    for (const name of await listFolder(this.#states)) {
      if (!keep.has(name)) await rm(join(this.#states, name), { recursive: true, force: true });
    }
  }
}

/** The state before any feedback. */
const start = "opened";
