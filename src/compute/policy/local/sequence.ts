/** One sequence being sampled: its state, why it ends and what it becomes. */
import { PolicyError } from "../../../errors.ts";
import type { FinishReason, PolicyVersion, RandomKey, SampledSpan, SampleRequest } from "../../../types.ts";

export interface Sequence {
  readonly request: SampleRequest;
  readonly variant: string;
  /** Equal for sequences that begin with the same prompt: it is computed once. */
  readonly prompt: string;
  readonly key: RandomKey;
  readonly ids: number[];
  readonly logprobs: number[];
  readonly version: PolicyVersion;
  readonly settle: (result: SampledSpan | Error) => void;
  /** Tokens whose keys and values are in the cache. */
  cached: number;
}

interface FinishOptions {
  readonly now: number;
  readonly context: number;
  readonly decode: ((ids: readonly number[]) => string) | undefined;
}

/** Why a sequence is over after its last token; undefined while it is not. */
export function finishOf({ request, ids, logprobs }: Sequence, { now, context, decode }: FinishOptions): FinishReason | undefined {
  const id = ids.at(-1)!;
  if (request.stopIds.includes(id)) return { type: "eos", id };
  if (request.stopStrings !== undefined && request.stopStrings.length > 0) {
    const text = decode!(ids.slice(request.prompt.length));
    const value = request.stopStrings.find((stop) => text.includes(stop));
    if (value !== undefined) return { type: "stopString", value };
  }
  if (logprobs.length >= request.maxTokens || ids.length >= context) return { type: "length" };
  return request.deadline !== undefined && now >= request.deadline ? { type: "timeout" } : undefined;
}

export function spanOf({ request, version, ids, logprobs }: Sequence, finish: FinishReason): SampledSpan {
  return { kind: "sampled", ids: ids.slice(request.prompt.length), logprobs, finish, version, temperature: request.temperature };
}

export function abortError(request: SampleRequest): Error {
  const reason: unknown = request.signal?.reason;
  return reason instanceof Error ? reason : new PolicyError("sample: aborted by its caller");
}
