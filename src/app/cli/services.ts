/** What commands need from the outside, so that a test can hand in streams and a decoder that it can read. */
import type { Decode } from "../../train/report/token-text.ts";
import type { JsonObject } from "../../types.ts";
import type { Terminal } from "./ui/colour.ts";

interface OutputStream extends Terminal {
  write(text: string): unknown;
}

export interface CliServices {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly environment: NodeJS.ProcessEnv;
  /** The tokenizer of the model that a run's configuration names, or null if it cannot be had: tokens are then shown as ids. */
  readonly decoderFor: (config: JsonObject) => Promise<Decode | null>;
}
