/**
 * Numeric values of formulas to many digits, by the Compute Engine (cortexjs.io) in worker threads: it has no limits of its own, so a
 * worker has a bounded heap and is ended when a formula takes too long. Two warm workers; the clock runs while a worker computes, not
 * while it starts or while a formula waits for one.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { messageOf } from "../../../../errors.ts";
import type { Json } from "../../../../types.ts";

/** Real and imaginary part as decimals; null where the formula has no finite value. */
export type Decimals = readonly [re: string, im: string] | null;

export class EngineLimitError extends Error {}

interface EvaluateOptions {
  readonly precision: number;
  readonly seconds: number;
  readonly signal?: AbortSignal | undefined;
}

/** What runs in the worker: MathJSON in, decimals out. Plain JavaScript, so that it needs no build of its own. */
const WORKER = `
const { parentPort, workerData } = require("node:worker_threads");
const { ComputeEngine } = require(workerData);
const engine = new ComputeEngine();
const digits = (value) => typeof value === "number" ? String(value) : typeof value === "object" && value !== null && "num" in value ? value.num : null;
const parts = (json) => {
  if (Array.isArray(json) && json[0] === "Complex") return [digits(json[1]), digits(json[2])];
  if (Array.isArray(json) && json[0] === "Rational") return null;
  return [digits(json), "0"];
};
const exact = (value) => /^-?[0-9]+$/.test(value) || /^-?[0-9]*\\.?[0-9]+(?:[eE][-+]?[0-9]+)?$/.test(value);
parentPort.on("message", ({ formulas, precision }) => {
  engine.precision = precision;
  engine.tolerance = 1e-300;
  const values = formulas.map((formula) => {
    try {
      const pair = parts(engine.box(formula).N().json);
      return pair !== null && pair.every((part) => typeof part === "string" && exact(part)) ? pair : null;
    } catch { return null; }
});
  parentPort.postMessage(values);
});
parentPort.postMessage("ready");
`;

const POOL_SIZE = 2;
const HEAP_MB = 256;
const START_SECONDS = 60;

interface Slot {
  readonly worker: Worker;
  readonly ready: Promise<void>;
}

export class MathEngine {
  private readonly idle: Slot[] = [];
  private readonly waiting: ((slot: Slot) => void)[] = [];
  private started = 0;

  /** Rejects with `EngineLimitError` where the time or the memory was not enough, and with the signal's reason after an abort. */
  async evaluate(formulas: readonly Json[], { precision, seconds, signal }: EvaluateOptions): Promise<{ readonly values: readonly Decimals[]; readonly milliseconds: number }> {
    signal?.throwIfAborted();
    const slot = await this.take();
    let alive = true;
    try {
      await slot.ready;
      signal?.throwIfAborted();
      const began = performance.now();
      const values = await computed(slot.worker, { formulas, precision }, { seconds, signal });
      return { values, milliseconds: performance.now() - began };
    } catch (cause) {
      alive = false;
      throw cause;
    } finally {
      this.give(slot, alive);
    }
  }

  /** Starts both workers, so that the first grading does not wait for them. */
  warm(): void {
    while (this.started < POOL_SIZE) this.give(this.start(), true);
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
    const worker = new Worker(WORKER, {
      eval: true,
      workerData: createRequire(import.meta.url).resolve("@cortex-js/compute-engine"),
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, stackSizeMb: 4 },
      stdout: true,
      stderr: true,
    });
    worker.unref();
    const ready = reply(worker, START_SECONDS).then(() => undefined);
    ready.catch(() => undefined);
    return { worker, ready };
  }
}

async function computed(
  worker: Worker,
  request: { readonly formulas: readonly Json[]; readonly precision: number },
  limits: { readonly seconds: number; readonly signal: AbortSignal | undefined },
): Promise<readonly Decimals[]> {
  const answer = reply(worker, limits.seconds, limits.signal);
  worker.postMessage(request);
  return (await answer) as readonly Decimals[];
}

/** The next message of a worker. */
function reply(worker: Worker, seconds: number, signal?: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const settle = (then: () => void): void => {
      clearTimeout(timer);
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
      signal?.removeEventListener("abort", onAbort);
      then();
    };
    const onMessage = (message: unknown): void => settle(() => resolve(message));
    const onError = (cause: unknown): void => settle(() => reject(new EngineLimitError(`the engine stopped: ${messageOf(cause)}`)));
    const onExit = (): void => settle(() => reject(new EngineLimitError("the engine stopped")));
    const onAbort = (): void => settle(() => reject(signal!.reason as Error));
    const onLate = (): void => settle(() => reject(new EngineLimitError(`no value within ${seconds} s`)));
    const timer = setTimeout(onLate, seconds * 1000);
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

let shared: MathEngine | null = null;

/** The one pool of the process: workers are a resource of the machine and hold nothing of a grading. */
export function sharedMathEngine(): MathEngine {
  shared ??= new MathEngine();
  return shared;
}
