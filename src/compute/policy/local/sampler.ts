/**
 * Continuous batching: sequences of all callers share one decoding loop; a finished one gives its place to a waiting one.
 * Prefill fills the cache with all of a prompt but its last token; every token is then sampled by the same decoding program.
 */
import { PolicyError } from "../../../errors.ts";
import type { PolicyVersion, SampledSpan, SampleRequest } from "../../../types.ts";
import { integers } from "../../tensor/host.ts";
import { decodeStep } from "./decode-step.ts";
import type { Machine } from "./forward.ts";
import { KvCache, RetainedCaches } from "./kv-cache.ts";
import { cacheBytesPerToken } from "./memory.ts";
import { causalMask, positionsOf } from "./packing.ts";
import { checkRequest } from "./sample-request.ts";
import { sharedStarts } from "./shared-prefix.ts";
import { abortError, finishOf, isAborted, isLate, spanOf, type Sequence } from "./sequence.ts";

export interface SamplerOptions {
  /** Sequences decoded at once. */
  readonly maxRows: number;
  /** Bytes for keys and values of running sequences. */
  readonly cacheBudget: number;
  /** Bytes for those of finished ones. */
  readonly retainBudget: number;
  /** Padded tokens of one prefill call. */
  readonly prefillTokens: number;
  /** Text of ids; without it, stop strings are refused. */
  readonly decode?: ((ids: readonly number[]) => string) | undefined;
}

export class Sampler {
  readonly #machine: Machine;
  readonly #options: SamplerOptions;
  readonly #cache: KvCache;
  readonly #retained: RetainedCaches;
  #pending: Sequence[] = [];
  #active: Sequence[] = [];
  #loop: Promise<void> | undefined;
  #stopped = false;
  /** Tokens sampled and prefilled, and seconds spent, since the start. */
  readonly stats = { sampled: 0, prefilled: 0, reused: 0, decodeSeconds: 0, prefillSeconds: 0 };

  constructor(machine: Machine, options: SamplerOptions) {
    this.#machine = machine;
    this.#options = options;
    this.#cache = new KvCache(machine.model.architecture, machine.pool);
    this.#retained = new RetainedCaches(options.retainBudget);
  }

  get busy(): boolean {
    return this.#loop !== undefined;
  }

  /** Whether sequences of this variant are being sampled or wait. */
  isSampling(variant: string): boolean {
    return [...this.#active, ...this.#pending].some((sequence) => sequence.variant === variant);
  }

  async sample(request: SampleRequest, version: PolicyVersion): Promise<SampledSpan[]> {
    checkRequest(request, { model: this.#machine.model, hasDecode: this.#options.decode !== undefined });
    const prompt = request.prompt.join(",");
    const variant = request.adapter ?? "policy";
    const constraints = request.keys.map(() => request.constraint?.()); // all are made before any sequence waits: one may throw
    const sequences = request.keys.map(
      (key, sample) =>
        new Promise<SampledSpan>((resolve, reject) => {
          const settle = (result: SampledSpan | Error): void => (result instanceof Error ? reject(result) : resolve(result));
          const state = { ids: [...request.prompt], logprobs: [], cached: 0 };
          this.#pending.push({ request, variant, prompt, key, sample, constraint: constraints[sample], version, settle, ...state });
        }),
    );
    this.#loop ??= this.#run();
    return Promise.all(sequences);
  }

  /** Forgets keys and values of older weights. */
  forget(): void {
    this.#retained.clear();
    this.#cache.clear();
  }

  /** Forgets those of finished sequences of one variant, whose weights changed. */
  forgetVariant(variant: string): void {
    this.#retained.clear(variant);
  }

  /** Ends running and waiting sequences with an error; resolves when no array is in use any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
  }

  async #run(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve)); // callers of the same moment share the first batch
    try {
      while (this.#pending.length + this.#active.length > 0) {
        if (this.#stopped) throw new PolicyError("sample: the engine was closed before this sequence ended");
        this.#dropStale();
        await this.#admit();
        if (this.#active.length > 0) await this.#step();
      }
    } catch (cause) {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      for (const sequence of [...this.#active, ...this.#pending]) sequence.settle(error);
      this.#active = [];
      this.#pending = [];
      this.forget();
    } finally {
      this.#loop = undefined; // in the same turn as the last look at the waiting ones: none is left behind
    }
  }

  /**
   * Moves waiting sequences of one variant into free rows, and fills their caches. While some run, none may pass an earlier one of
   * another variant: that one's turn comes when they have ended, however many follow.
   */
  async #admit(): Promise<void> {
    const variant = this.#active[0]?.variant ?? this.#pending[0]?.variant;
    const { context } = this.#machine.model.architecture;
    const longest = (s: Sequence): number => Math.min(context, s.request.prompt.length + s.request.maxTokens);
    const fresh: Sequence[] = [];
    let need = Math.max(0, ...this.#active.map(longest));
    for (const sequence of this.#pending) {
      if (sequence.variant !== variant) {
        if (this.#active.length > 0) break;
        continue;
      }
      const rows = this.#active.length + fresh.length + 1;
      need = Math.max(need, longest(sequence));
      const bytes = rows * (need + 64) * cacheBytesPerToken(this.#machine.model.architecture);
      if (rows > this.#options.maxRows || (rows > 1 && bytes > this.#options.cacheBudget)) break;
      fresh.push(sequence);
    }
    if (fresh.length === 0) return;
    this.#pending = this.#pending.filter((sequence) => !fresh.includes(sequence));
    const started = performance.now();
    await this.#fill(fresh);
    this.stats.prefillSeconds += (performance.now() - started) / 1000;
  }

  /** Gives each fresh sequence a row and its prompt's keys and values: copied where known, else computed, once a prompt. */
  async #fill(fresh: readonly Sequence[]): Promise<void> {
    const running = new Set(this.#active.map(({ prompt }) => prompt));
    const leaders = new Map<string, Sequence>();
    for (const sequence of fresh) {
      if (!running.has(sequence.prompt) && !leaders.has(sequence.prompt)) leaders.set(sequence.prompt, sequence);
    }
    const known = new Map([...leaders.values()].map((leader) => [leader, this.#retained.find(leader.ids, leader.variant)] as const));
    const missing = (s: Sequence): number => s.ids.length - (known.get(s)?.length ?? 0);
    const first = [...leaders.values()].sort((a, b) => missing(b) - missing(a));
    const followers = fresh.filter((sequence) => leaders.get(sequence.prompt) !== sequence);
    const start = this.#active.length;
    const longest = Math.max(...[...this.#active, ...fresh].map(({ ids }) => ids.length));
    this.#cache.reserve(start + fresh.length, longest + 1, start);
    this.#active.push(...first, ...followers);
    first.forEach((leader, i) => {
      const found = known.get(leader);
      if (found === undefined) return;
      this.#cache.restore(found.cache, start + i, found.length);
      leader.cached = found.length;
      this.stats.reused += found.length;
    });
    await this.#shareStarts(start + first.length);
    await this.#prefill(start, start + first.length);
    followers.forEach((follower, i) => {
      const source = this.#active.findIndex((other) => other !== follower && other.prompt === follower.prompt);
      const length = follower.ids.length - 1;
      this.#cache.copyRow(source, start + first.length + i, length);
      follower.cached = length;
    });
  }

  /** What different prompts of the first `rows` rows begin with is computed in one of them and copied into the others. */
  async #shareStarts(rows: number): Promise<void> {
    for (const { first, others, length } of sharedStarts(this.#active.slice(0, rows))) {
      const source = this.#active.indexOf(first);
      while (first.cached < length) await this.#prefillRows(source, source + 1, length);
      for (const other of others) {
        this.#cache.copyRow(source, this.#active.indexOf(other), length);
        this.stats.reused += length - other.cached;
        other.cached = length;
      }
    }
  }

  /** Runs rows from..to-1 through the model, in batches of similar length, until all but each last token is cached. */
  async #prefill(from: number, to: number): Promise<void> {
    for (let row = from; row < to;) {
      const missing = (r: number): number => this.#active[r]!.ids.length - 1 - this.#active[r]!.cached;
      const tokens = Math.min(missing(row), this.#options.prefillTokens);
      if (tokens === 0) {
        row++;
        continue;
      }
      let end = row + 1;
      while (end < to && missing(end) > 0 && (end - row + 1) * tokens <= this.#options.prefillTokens) end++;
      while (missing(row) > 0) await this.#prefillRows(row, end);
      row = end;
    }
  }

  /** One call; no row gets more than its first `limit` tokens. */
  async #prefillRows(from: number, to: number, limit = Infinity): Promise<void> {
    const rows = this.#active.slice(from, to);
    const starts = rows.map(({ cached }) => cached);
    const perRow = Math.max(1, Math.floor(this.#options.prefillTokens / rows.length));
    const counts = rows.map(({ ids, cached }) => Math.min(ids.length - 1 - cached, limit - cached, perRow));
    const length = Math.max(...counts);
    const ids = new Int32Array(rows.length * length);
    rows.forEach((row, r) => ids.set(row.ids.slice(row.cached, row.cached + counts[r]!), r * length));
    const past = starts.some((start) => start > 0);
    const { model, programs, pool } = this.#machine;
    const program = await programs.prefill({ past, lora: model.loraOf(rows[0]!.variant) });
    const results = await program.run(
      {
        ...model.feeds(rows[0]!.variant, "all"),
        ids: integers(ids, [rows.length, length]),
        positions: positionsOf(starts, length, model.architecture.context),
        mask: causalMask(starts, length, past ? this.#cache.capacity : 0),
        ...(past ? this.#cache.view(from, to) : {}),
      },
      { pool },
    );
    this.#cache.append(results, from, { starts, counts });
    pool.give(...Object.values(results));
    rows.forEach((row, r) => (row.cached += counts[r]!));
    this.stats.prefilled += counts.reduce((a, b) => a + b, 0);
  }

  /** One token for every active sequence. */
  async #step(): Promise<void> {
    const started = performance.now();
    await decodeStep(this.#machine, this.#active, this.#cache);
    this.stats.sampled += this.#active.length;
    this.#finish();
    this.stats.decodeSeconds += (performance.now() - started) / 1000;
  }

  /** Takes finished sequences out; the last row moves into each hole. */
  #finish(): void {
    const now = Date.now();
    const { context } = this.#machine.model.architecture;
    for (let row = this.#active.length - 1; row >= 0; row--) {
      const sequence = this.#active[row]!;
      const finish = finishOf(sequence, { now, context, decode: this.#options.decode });
      if (finish === undefined || sequence.failed !== undefined) continue;
      const { ids, cached, variant } = sequence;
      if (this.#options.retainBudget > 0) this.#retained.add(Int32Array.from(ids.slice(0, cached)), variant, this.#cache.save(row, cached));
      this.#remove(row);
      sequence.settle(spanOf(sequence, finish));
    }
  }

  #remove(row: number): void {
    const last = this.#active.length - 1;
    if (row !== last) {
      this.#cache.copyRow(last, row, this.#active[last]!.cached);
      this.#active[row] = this.#active[last]!;
    }
    this.#active.pop();
  }

  /** Aborted sequences are rejected; one that waited past its deadline ends before its prompt is computed. */
  #dropStale(): void {
    for (let row = this.#active.length - 1; row >= 0; row--) {
      const sequence = this.#active[row]!;
      if (!isAborted(sequence)) continue;
      this.#remove(row);
      sequence.settle(abortError(sequence));
    }
    const waiting = this.#pending;
    this.#pending = [];
    for (const sequence of waiting) {
      if (isAborted(sequence)) sequence.settle(abortError(sequence));
      else if (isLate(sequence, Date.now())) sequence.settle(spanOf(sequence, { type: "timeout" }));
      else this.#pending.push(sequence);
    }
  }
}
