/**
 * Everywhere: small JavaScript in QuickJS, compiled to WebAssembly, in a worker thread. The program's memory is the WebAssembly memory,
 * which has a maximum (QuickJS's own limit is not kept), and the thread is ended from outside when the time is over.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { expected, messageOf, SandboxError } from "../../errors.ts";
import { guestFolder } from "./machine.ts";
import {
  checkFiles,
  limitsWith,
  type PairResult,
  type Sandbox,
  type SandboxLimits,
  type SandboxResult,
  type SandboxRun,
} from "./sandbox.ts";
import { Slots } from "./slots.ts";

interface Ended {
  readonly event: "end";
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly cut: boolean;
  readonly late: boolean;
  readonly flood: boolean;
}

type Outcome = Ended | "wall" | "memory" | Error;

const MOST_MEGABYTES = 256;
/** Loading takes longer on a busy machine; it is not the program's time. */
const LOADING_MS = 30_000;

export class QuickJs implements Sandbox {
  readonly name = "quickjs";
  readonly languages = ["javascript"] as const;
  private readonly slots: Slots;
  private readonly workers = new Set<Worker>();

  constructor(slots: number) {
    this.slots = new Slots(slots);
  }

  async run({ files = {}, program, stdin = "", mounts = {}, limits: given, signal }: SandboxRun): Promise<SandboxResult> {
    const limits = limitsWith(given);
    checkFiles(files);
    if (!("language" in program) || program.language !== "javascript") {
      const got = "language" in program ? program.language : `the command ${program.command[0] ?? ""}`;
      throw new SandboxError(expected("quickjs sandbox", "a program in javascript", got, "use the bubblewrap sandbox on Linux"));
    }
    const paths = [...Object.keys(files), ...Object.keys(mounts)];
    if (paths.length > 0) {
      throw new SandboxError(expected("quickjs sandbox", "no files", paths.join(", "), "it has no file system; put the data into stdin"));
    }
    const { source } = program;
    return this.slots.use(signal, () => this.inWorker({ source, stdin, limits, signal }));
  }

  examine(): Promise<PairResult> {
    const remedy = "grade code with the bubblewrap sandbox on Linux";
    return Promise.reject(new SandboxError(expected("quickjs sandbox", "a single program", "a pair to examine", remedy)));
  }

  async close(): Promise<void> {
    this.slots.close();
    await Promise.all([...this.workers].map((worker) => worker.terminate()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async inWorker(job: {
    readonly source: string;
    readonly stdin: string;
    readonly limits: SandboxLimits;
    readonly signal: AbortSignal | undefined;
  }): Promise<SandboxResult> {
    const { limits, signal } = job;
    const milliseconds = limits.wallSeconds * 1000;
    const workerData = {
      source: job.source,
      stdin: job.stdin,
      milliseconds,
      outputBytes: limits.outputBytes,
      memoryMegabytes: Math.min(limits.memoryMegabytes, MOST_MEGABYTES),
    };
    const worker = new Worker(join(guestFolder(), "quickjs.mjs"), {
      workerData,
      env: {},
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: 128 },
    });
    this.workers.add(worker);
    let started = performance.now();
    let timer: NodeJS.Timeout | undefined;
    try {
      const outcome = await new Promise<Outcome>((resolve) => {
        timer = setTimeout(() => resolve(new SandboxError("quickjs did not load in time")), LOADING_MS);
        worker.on("message", (message: Ended | { readonly event: "ready" }) => {
          if (message.event === "end") return resolve(message);
          started = performance.now();
          clearTimeout(timer);
          // The program's own deadline comes first; this one is for what never lets the interpreter look at the clock.
          timer = setTimeout(() => resolve("wall"), milliseconds + 250);
        });
        worker.on("error", (cause: NodeJS.ErrnoException) =>
          resolve(cause.code === "ERR_WORKER_OUT_OF_MEMORY" ? "memory" : failureOf(cause)),
        );
        worker.on("exit", () => resolve(new SandboxError("quickjs: the worker ended")));
        signal?.addEventListener("abort", () => resolve(signal.reason as Error), { once: true });
      });
      signal?.throwIfAborted();
      return resultOf(outcome, (performance.now() - started) / 1000);
    } finally {
      clearTimeout(timer);
      this.workers.delete(worker);
      await worker.terminate();
    }
  }
}

/** WebAssembly that cannot grow ends QuickJS in one of several ways, all of them a trap. */
function failureOf(cause: Error): Outcome {
  return cause.name === "RuntimeError" || /memory|unreachable|out of bounds|Aborted/i.test(messageOf(cause))
    ? "memory"
    : new SandboxError(`quickjs: ${messageOf(cause)}`);
}

function resultOf(outcome: Outcome, seconds: number): SandboxResult {
  if (outcome instanceof Error) throw outcome;
  const none = { exit: null, stdout: "", stderr: "", truncated: { stdout: false, stderr: false }, seconds };
  if (typeof outcome === "string") return { ...none, killedBy: outcome };
  const { exit, stdout, stderr, cut, late, flood } = outcome;
  const killedBy = flood ? "output" : late ? "wall" : /^InternalError: out of memory/.test(stderr) ? "memory" : null;
  return { ...none, exit: killedBy === null ? exit : null, stdout, stderr, truncated: { stdout: cut, stderr: false }, killedBy };
}
