/** What commands need from the outside, so that a test can hand in streams and a decoder that it can read. */
import type { Readable } from "node:stream";
import type { Decode } from "../../train/report/token-text.ts";
import type { JsonObject } from "../../types.ts";
import type { Terminal } from "./ui/colour.ts";

interface OutputStream extends Terminal {
  write(text: string): unknown;
}

export interface CliServices {
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly environment: NodeJS.ProcessEnv;
  /** Where relative paths begin. */
  readonly cwd: string;
  /** How this program was started, for commands that are printed to be typed: `flywheel`, `npx flywheel`, `node path/main.js`. */
  readonly command: string;
  /** Aborted at the first Ctrl-C: commands finish what must not be torn and throw the reason. The second ends the process. */
  readonly signal: AbortSignal;
  /** How long the command may take to stop once `signal` is aborted, in milliseconds, where a second is not enough. */
  readonly allowToStop: (milliseconds: number) => void;
  /** The tokenizer of the model that a run's configuration names, or null if it cannot be had: tokens are then shown as ids. */
  readonly decoderFor: (config: JsonObject) => Promise<Decode | null>;
}

/** The user ended the command; exit code 130, and no error is shown. */
export class Interrupted extends Error {
  constructor() {
    super("interrupted");
    this.name = "Interrupted";
  }
}
