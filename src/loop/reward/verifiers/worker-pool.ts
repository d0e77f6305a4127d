/**
 * Work that has no limits of its own, in worker threads that have: a bounded heap, and an end when one piece of work takes too long. Two
 * warm workers a pool; the clock runs while a worker computes, not while it starts or while work waits for one.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { RewardError, messageOf } from "../../../errors.ts";
import type { Json } from "../../../types.ts";

/** Time or memory was not enough; only the work that needed it is lost. */
export class WorkerLimitError extends Error {}

interface PoolOptions {
  /**
   * Plain JavaScript that declares `handle(request)`, which may be asynchronous; `paths` has the modules' files by name. It is text, so
   * that a worker needs no build of its own.
   */
  readonly source: string;
  readonly modules: readonly string[];
  readonly heapMb?: number;
}

interface RunOptions {
  readonly seconds: number;
  readonly signal?: AbortSignal | undefined;
}

const POOL_SIZE = 2;
const START_SECONDS = 60;

interface Slot {
  readonly worker: Worker;
  readonly ready: Promise<void>;
}

export class WorkerPool {
  private readonly source: string;
  private readonly paths: Readonly<Record<string, string>>;
  private readonly heapMb: number;
  private readonly idle: Slot[] = [];
  private readonly waiting: ((slot: Slot) => void)[] = [];
  private started = 0;

  constructor({ source, modules, heapMb = 256 }: PoolOptions) {
    const { resolve } = createRequire(import.meta.url);
    this.paths = Object.fromEntries(modules.map((name) => [name, resolve(name)]));
    this.source = `
      const { parentPort, workerData: paths } = require("node:worker_threads");
      const { pathToFileURL } = require("node:url");
      // Libraries print; reading their output here would keep the process from ending.
      for (const stream of [process.stdout, process.stderr]) stream.write = () => true;
      const load = (name) => import(pathToFileURL(paths[name]).href);
      ${source}
      parentPort.on("message", async (request) => {
        try { parentPort.postMessage({ value: await handle(request) }); }
        catch (error) { parentPort.postMessage({ error: String((error && error.message) || error).slice(0, 500) }); }
      });
      Promise.resolve(typeof start === "function" ? start() : null).then(() => parentPort.postMessage({ value: "ready" }),
        (error) => parentPort.postMessage({ error: String(error) }));`;
    this.heapMb = heapMb;
  }

  /**
   * Rejects with `WorkerLimitError`, with an Error that the work threw, with a `RewardError` where no worker could be started, or with the
   * signal's reason after an abort.
   */
  async run(request: Json, { seconds, signal }: RunOptions): Promise<{ readonly value: Json; readonly milliseconds: number }> {
    signal?.throwIfAborted();
    const slot = await this.take();
    let alive = true;
    try {
      await slot.ready.catch((cause: unknown) => {
        throw new RewardError(`the worker did not start: ${messageOf(cause)}`);
      });
      signal?.throwIfAborted();
      const began = performance.now();
      const answer = reply(slot.worker, seconds, signal);
      slot.worker.postMessage(request);
      const value = await answer;
      return { value, milliseconds: performance.now() - began };
    } catch (cause) {
      alive = cause instanceof WorkError;
      throw cause;
    } finally {
      this.give(slot, alive);
    }
  }

  private take(): Promise<Slot> {
    const slot = this.idle.pop();
    if (slot !== undefined) return Promise.resolve(slot);
    if (this.started < POOL_SIZE) return Promise.resolve(this.start());
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private give(slot: Slot, alive: boolean): void {
    if (!alive) {
      void slot.worker.terminate();
      this.started--;
      if (this.waiting.length === 0) return;
    }
    const next = alive ? slot : this.start();
    const taker = this.waiting.shift();
    if (taker === undefined) this.idle.push(next);
    else taker(next);
  }

  private start(): Slot {
    this.started++;
    const resourceLimits = { maxOldGenerationSizeMb: this.heapMb, stackSizeMb: 4 };
    const worker = new Worker(this.source, { eval: true, workerData: this.paths, resourceLimits, execArgv: [] });
    worker.unref();
    const ready = reply(worker, START_SECONDS).then(() => undefined);
    ready.catch(() => undefined);
    return { worker, ready };
  }
}

/** What the work itself threw: the worker is as good as before. */
class WorkError extends Error {}

function reply(worker: Worker, seconds: number, signal?: AbortSignal): Promise<Json> {
  return new Promise((resolve, reject) => {
    const settle = (then: () => void): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
      signal?.removeEventListener("abort", onAbort);
      then();
    };
    const onMessage = (message: { readonly value: Json } | { readonly error: string }): void =>
      settle(() => ("error" in message ? reject(new WorkError(message.error)) : resolve(message.value)));
    const onError = (cause: unknown): void => settle(() => reject(new WorkerLimitError(`the worker stopped: ${messageOf(cause)}`)));
    const onExit = (): void => settle(() => reject(new WorkerLimitError("the worker stopped")));
    const onAbort = (): void => settle(() => reject(signal!.reason as Error));
    const timer = setTimeout(() => settle(() => reject(new WorkerLimitError(`no result within ${seconds.toFixed(1)} s`))), seconds * 1000);
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
