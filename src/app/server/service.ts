/** What the handlers share: the policy that is served, under which names, and within which limits. */
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import type { Engine } from "../../types.ts";
import type { SessionStore } from "./capture/store.ts";
import type { TurnConstraints } from "./constraint.ts";
import { ApiError } from "./errors.ts";
import type { SwapGate } from "./gate.ts";
import type { Metrics } from "./metrics.ts";

export interface ServedPolicy {
  readonly engine: Pick<Engine, "sample" | "info" | "version">;
  readonly renderer: ChatRenderer;
}

export interface Service {
  readonly policy: ServedPolicy;
  /** Model names, each with the adapter that it stands for; "*" is any other name. */
  readonly models: ReadonlyMap<string, string>;
  readonly constraints: TurnConstraints;
  readonly gate: SwapGate;
  readonly metrics: Metrics;
  /** Tokens of an answer whose request names no limit. */
  readonly defaultMaxTokens: number;
  readonly sessions: SessionStore;
  /** Aborted when the server does not wait any longer. */
  readonly stopping: AbortSignal;
  /** Unix seconds. */
  readonly started: number;
}

export function adapterOf({ models }: Service, model: string): string {
  const adapter = models.get(model) ?? models.get("*");
  if (adapter !== undefined) return adapter;
  const message = `model: expected one of ${[...models.keys()].join(", ")}, got ${model}`;
  throw new ApiError(404, message, { param: "model", code: "model_not_found" });
}
