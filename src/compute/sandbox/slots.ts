/** A fixed number of slots and a queue before them, in order of arrival. A slot is a number, so that each can have a user id of its own. */
import { SandboxError } from "../../errors.ts";

interface Waiting {
  readonly start: (slot: number) => void;
  readonly refuse: (cause: Error) => void;
}

export class Slots {
  private readonly free: number[];
  private readonly waiting: Waiting[] = [];
  private closed: SandboxError | null = null;

  constructor(count: number) {
    this.free = Array.from({ length: count }, (_, slot) => slot);
  }

  /** Runs `body` in the next free slot. An abort while it waits takes it out of the queue and rejects with the signal's reason. */
  async use<T>(signal: AbortSignal | undefined, body: (slot: number) => Promise<T>): Promise<T> {
    const slot = await this.take(signal);
    try {
      return await body(slot);
    } finally {
      const next = this.waiting.shift();
      if (next === undefined) this.free.push(slot);
      else next.start(slot);
    }
  }

  /** Refuses everything that waits and everything that comes. */
  close(): void {
    this.closed = new SandboxError("sandbox: it is closed");
    for (const { refuse } of this.waiting.splice(0)) refuse(this.closed);
  }

  private async take(signal: AbortSignal | undefined): Promise<number> {
    signal?.throwIfAborted();
    if (this.closed !== null) throw this.closed;
    const slot = this.free.shift();
    if (slot !== undefined) return slot;
    return new Promise<number>((resolve, reject) => {
      const leave = (): void => {
        this.waiting.splice(this.waiting.indexOf(entry), 1);
        reject(signal!.reason as Error);
      };
      const entry: Waiting = {
        start: (given) => {
          signal?.removeEventListener("abort", leave);
          resolve(given);
        },
        refuse: (cause) => {
          signal?.removeEventListener("abort", leave);
          reject(cause);
        },
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.waiting.push(entry);
    });
  }
}
