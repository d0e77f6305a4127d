/** Ctrl-C and SIGTERM: the first asks the command to stop in order, the second ends the process at once, and so does time. */
import type { EventEmitter } from "node:events";
import { Interrupted } from "./services.ts";

/** Milliseconds in which a command may stop in order. What is on disk is whole at any moment, so an end at once loses nothing more. */
const usual = 1400;

interface InterruptOptions {
  readonly exit: (code: number) => void;
  /** Called before the end of a process that did not stop in time. */
  readonly late?: () => void;
}

interface Interruption {
  readonly signal: AbortSignal;
  /** Gives a command another time to stop in. */
  readonly allowToStop: (milliseconds: number) => void;
}

/** A signal that is aborted at the first SIGINT or SIGTERM of `source`; at the next, or when patience is over, `exit` is called. */
export function interruption(source: EventEmitter, { exit, late = () => undefined }: InterruptOptions): Interruption {
  const interrupt = new AbortController();
  let patience = usual;
  const stop = (): void => {
    if (interrupt.signal.aborted) return exit(130);
    interrupt.abort(new Interrupted());
    const end = setTimeout(() => {
      late();
      exit(130);
    }, patience);
    end.unref();
  };
  for (const name of ["SIGINT", "SIGTERM"]) source.on(name, stop);
  return {
    signal: interrupt.signal,
    allowToStop: (milliseconds) => {
      patience = milliseconds;
    },
  };
}
