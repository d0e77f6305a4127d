/** From a prompt in ids to sampled spans, through the gate: what chat and completions have in common. */
import { randomInt, randomUUID } from "node:crypto";
import { rng } from "../../random.ts";
import type { DrawnToken, PolicyVersion, SampledSpan, TokenConstraint } from "../../types.ts";
import { ApiError } from "./errors.ts";
import type { Sampling } from "./requests.ts";
import { adapterOf, type Service } from "./service.ts";

export interface Prompt {
  readonly ids: readonly number[];
  /** Which of several prompts of one request; a part of the random address. */
  readonly index: number;
  readonly stopIds: readonly number[];
  readonly constraint?: () => TokenConstraint;
}

/** Tokens of one answer: what was asked, or else the server's default, within what the context leaves. */
export function roomFor({ policy, defaultMaxTokens }: Service, length: number, asked: number | undefined): number {
  const { contextLength } = policy.engine.info;
  if (length >= contextLength) {
    const message = `expected a prompt below the model's context of ${contextLength} tokens, got ${length}; shorten the messages`;
    throw new ApiError(400, message, { param: "messages", code: "context_length_exceeded" });
  }
  return Math.min(asked ?? defaultMaxTokens, contextLength - length);
}

/** Permission to sample: which version answers, what ends it early, and how it is given back. */
export interface Lease {
  readonly version: PolicyVersion;
  /** Aborted when the client leaves or the server ends. */
  readonly abort: AbortController;
  readonly release: () => void;
}

export async function lease({ gate, policy, metrics, stopping }: Service, client: AbortSignal): Promise<Lease> {
  const started = performance.now();
  const abort = new AbortController();
  const listening = [client, stopping].map((signal) => {
    const listener = (): void => abort.abort(signal.reason);
    if (signal.aborted) listener();
    else signal.addEventListener("abort", listener, { once: true });
    return () => signal.removeEventListener("abort", listener);
  });
  const leave = await gate.enter(abort.signal).catch((cause: unknown) => {
    listening.forEach((stop) => stop());
    throw cause;
  });
  let released = false;
  const release = (): void => {
    if (released) return;
    released = true;
    leave();
    listening.forEach((stop) => stop());
    metrics.observeSeconds((performance.now() - started) / 1000);
    if (abort.signal.aborted) metrics.add("flywheel_cancelled_total");
  };
  return { version: policy.engine.version, abort, release };
}

interface GenerateOptions {
  readonly sampling: Sampling;
  readonly seed: number;
  readonly signal: AbortSignal;
  readonly onToken: (token: DrawnToken) => void;
}

export const seedOf = ({ seed }: Sampling): number => (seed === undefined ? randomInt(2 ** 32) : seed >>> 0);

/** The spans of one prompt, in the order of the answers. */
export async function generate(service: Service, prompt: Prompt, options: GenerateOptions): Promise<readonly SampledSpan[]> {
  const { sampling, seed, signal, onToken } = options;
  const { engine } = service.policy;
  service.metrics.add("flywheel_prompt_tokens_total", {}, prompt.ids.length);
  const spans = await engine.sample({
    prompt: prompt.ids,
    count: sampling.count,
    maxTokens: roomFor(service, prompt.ids.length, sampling.maxTokens),
    temperature: sampling.temperature,
    stopIds: prompt.stopIds,
    stopStrings: sampling.stop,
    keys: Array.from({ length: sampling.count }, (_, sample) => rng(seed, "serve", prompt.index, sample)),
    adapter: adapterOf(service, sampling.model),
    topLogprobs: sampling.logprobs ?? 0,
    signal,
    onToken,
    ...(prompt.constraint === undefined ? {} : { constraint: prompt.constraint }),
  });
  for (const { ids } of spans) service.metrics.add("flywheel_sampled_tokens_total", {}, ids.length);
  return spans;
}

/** What an answer is known by: its id, when it was made and by which weights. */
export interface AnswerFacts {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export function factsOf(kind: "chatcmpl" | "cmpl", model: string, version: PolicyVersion): AnswerFacts {
  const created = Math.floor(Date.now() / 1000);
  return { id: `${kind}-${randomUUID().replaceAll("-", "")}`, created, model, system_fingerprint: fingerprintOf(version) };
}

const fingerprintOf = (version: PolicyVersion): string => `flywheel-v${version}`;

/** The header that names the version of the weights which answered. */
export const versionHeader = (version: PolicyVersion): Readonly<Record<string, string>> => ({
  "x-flywheel-policy-version": String(version),
});

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

export function usageOf(prompt: number, spans: readonly SampledSpan[]): Usage {
  const completion = spans.reduce((sum, { ids }) => sum + ids.length, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
