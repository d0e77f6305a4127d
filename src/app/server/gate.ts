/**
 * Lets requests sample side by side and weights be exchanged between them: an exchange waits for the requests that run, and those that
 * come meanwhile wait for the exchange. No request is dropped, and each is sampled by one version from its first token to its last.
 */
export class SwapGate {
  #running = 0;
  #idle: (() => void) | undefined;
  #exchange: Promise<unknown> | undefined;

  get running(): number {
    return this.#running;
  }

  /** Resolves when sampling may begin, with the function that says it has ended. Throws the signal's reason if it fires while waiting. */
  async enter(signal: AbortSignal): Promise<() => void> {
    while (this.#exchange !== undefined) await this.#exchange;
    signal.throwIfAborted();
    this.#running++;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#running--;
      if (this.#running === 0) this.#idle?.();
    };
  }

  /** Runs `body` while nothing is sampled; one after another. */
  async exclusive<T>(body: () => Promise<T>): Promise<T> {
    while (this.#exchange !== undefined) await this.#exchange;
    let open: () => void = () => undefined;
    this.#exchange = new Promise<void>((resolve) => (open = resolve));
    try {
      if (this.#running > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
      return await body();
    } finally {
      this.#idle = undefined;
      this.#exchange = undefined;
      open();
    }
  }
}
