/** Ctrl-C: the first asks the command to stop in order, the second ends the process at once. */
import type { EventEmitter } from "node:events";
import { Interrupted } from "./services.ts";

/** A signal that is aborted at the first SIGINT of `source`; at the next, `exit` is called. */
export function interruptSignal(source: EventEmitter, exit: (code: number) => void): AbortSignal {
  const interrupt = new AbortController();
  source.on("SIGINT", () => {
    if (interrupt.signal.aborted) exit(130);
    else interrupt.abort(new Interrupted());
  });
  return interrupt.signal;
}
