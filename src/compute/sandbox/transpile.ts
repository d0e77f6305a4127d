/** TypeScript to JavaScript in a warm worker thread with a deadline: hostile text costs its own run and never this thread. */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { SandboxError } from "../../errors.ts";
import { guestFolder } from "./machine.ts";

type Files = Readonly<Record<string, string>>;

interface Job {
  readonly files: Files;
  readonly resolve: (files: Files) => void;
  readonly reject: (cause: unknown) => void;
  readonly signal: AbortSignal | undefined;
}

const DEADLINE_MS = 5_000;

export class Transpiler {
  private readonly queue: Job[] = [];
  private worker: Worker | null = null;
  private busy = false;
  private closed = false;

  /** Every .ts, .js (.mts, .cjs, .tsx, …) file as CommonJS. One that cannot be compiled in time throws the reason when it is loaded. */
  compile(files: Files, signal?: AbortSignal): Promise<Files> {
    return new Promise((resolve, reject) => {
      this.queue.push({ files, resolve, reject, signal });
      void this.work();
    });
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const { reject } of this.queue.splice(0)) reject(new SandboxError("sandbox: it is closed"));
    await this.worker?.terminate();
  }

  private async work(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    for (let job = this.queue.shift(); job !== undefined; job = this.queue.shift()) {
      if (job.signal?.aborted === true) job.reject(job.signal.reason);
      else await this.one(job).then(job.resolve, job.reject);
    }
    this.busy = false;
    this.worker?.unref();
  }

  private async one({ files }: Job): Promise<Files> {
    if (this.closed) throw new SandboxError("sandbox: it is closed");
    const worker = (this.worker ??= new Worker(join(guestFolder(), "transpile.mjs"), {
      resourceLimits: { maxOldGenerationSizeMb: 256 },
      env: {},
    }));
    worker.ref();
    let timer: NodeJS.Timeout | undefined;
    let release: () => void = () => undefined;
    const outcome = await new Promise<Files | string>((resolve) => {
      const done = (message: { readonly files: Files }): void => resolve(message.files);
      const failed = (cause: Error): void => resolve(cause.message);
      worker.once("message", done);
      worker.once("error", failed);
      timer = setTimeout(() => resolve(`compiling took longer than ${DEADLINE_MS / 1000} s`), DEADLINE_MS);
      release = () => {
        worker.off("message", done);
        worker.off("error", failed);
      };
      worker.postMessage({ files });
    });
    clearTimeout(timer);
    release();
    if (typeof outcome !== "string") return outcome;
    this.worker = null;
    await worker.terminate();
    return Object.fromEntries(Object.keys(files).map((path) => [path, `throw new SyntaxError(${JSON.stringify(outcome)});`]));
  }
}
