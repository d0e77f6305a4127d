/**
 * Episodes in lockstep: no turn is sampled before every running episode has its environment's answer or has ended, and turns are
 * handed over in the order of the jobs. Which sequences are sampled side by side, and so the last digits of every product, then no
 * longer depend on how long a tool takes.
 */
import type { SampleRequest } from "../../types.ts";
import type { Policy } from "./episode.ts";

export class Lockstep {
  #running = 0;
  /** Episodes that want their next turn, by the place of their job. */
  readonly #waiting = new Map<number, () => void>();

  /** Runs one job with a policy whose turns wait for those of all other jobs that run. */
  async run<T>(place: number, { engine, ...rest }: Policy, body: (policy: Policy) => Promise<T>): Promise<T> {
    this.#running++;
    const sample = async (request: SampleRequest): ReturnType<Policy["engine"]["sample"]> => {
      await this.#turn(place, request.signal);
      return engine.sample(request);
    };
    try {
      return await body({ ...rest, engine: { info: engine.info, sample } });
    } finally {
      this.#running--;
      this.#look();
    }
  }

  #turn(place: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(place);
        reject(signal!.reason as Error);
      };
      if (signal?.aborted === true) return leave();
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.set(place, () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      });
      this.#look();
    });
  }

  /** Looks when all that follows from what just happened is done: a job that ended may have made room for the next. */
  #look(): void {
    setImmediate(() => {
      if (this.#waiting.size === 0 || this.#waiting.size < this.#running) return;
      const turns = [...this.#waiting].sort(([a], [b]) => a - b);
      this.#waiting.clear();
      for (const [, go] of turns) go();
    });
  }
}
