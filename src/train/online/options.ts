/** What an online model is opened with. */
import { z } from "zod";
import { real, whole } from "../../config-fields.ts";
import { ConfigError } from "../../errors.ts";
import type { Message, ToolSpec } from "../../types.ts";
import type { AdapterSettings } from "./adapter.ts";

const settingsSchema = z.strictObject({
  rank: whole({ min: 1, max: 1024 }, 8, "rank of each adapter"),
  alpha: real({ above: 0, max: 4096 }, 16, "scale of each adapter is alpha / rank"),
  learningRate: real({ above: 0, max: 1 }, 5e-4, "AdamW's step size of an update"),
  steps: whole({ min: 1, max: 64 }, 2, "optimiser steps of an update"),
  beta: real({ above: 0, max: 100 }, 0.1, "weight of the constraint to the opened model in DPO and KTO"),
  likelihood: real({ min: 0, max: 100 }, 0.2, "weight of the preferred answer's cross-entropy beside DPO"),
  replay: whole({ min: 0, max: 64 }, 2, "earlier pieces of feedback trained along with a new one"),
  maxDrift: real({ above: 0, max: 100 }, 0.1, "bound of the KL from the opened model, nats a token"),
  guardDrop: real({ min: 0, max: 100 }, 0.05, "nats a token by which guard answers may fall below the opened model's"),
  tries: whole({ min: 1, max: 10 }, 3, "step sizes that are tried, each a quarter of the one before"),
  undoDepth: whole({ min: 1, max: 1000 }, 20, "updates that can be undone"),
  seed: whole({ min: 0, max: 2 ** 32 - 1 }, 0, "of sampling, of fresh adapters and of replay"),
});

export interface OnlineOptions extends Partial<z.input<typeof settingsSchema>> {
  /** Where feedback and states are kept; default `runs/online`. One process at a time. */
  readonly folder?: string;
  /** Questions with answers that no update may make less likely. */
  readonly guard?: readonly { readonly prompt: string | readonly Message[]; readonly answer: string }[];
  /** Adapters that may be open at once: each takes its weights four to five times. */
  readonly maxAdapters?: number;
  readonly cacheDir?: string;
}

export interface GenerateOptions {
  readonly count?: number;
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly adapter?: string;
  readonly tools?: readonly ToolSpec[];
  readonly signal?: AbortSignal;
}

export interface LearnOptions {
  readonly adapter?: string;
  /** The same id again returns what was learned the first time: a request can be sent twice. */
  readonly id?: string;
  readonly annotator?: string;
  /** Trust in this annotator, above 0 and at most 1. */
  readonly weight?: number;
}

export function readSettings(given: Partial<z.input<typeof settingsSchema>>): AdapterSettings {
  const parsed = settingsSchema.safeParse(given, { reportInput: true });
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new ConfigError(`${["online", ...path].join(".")}: ${message}`);
}
