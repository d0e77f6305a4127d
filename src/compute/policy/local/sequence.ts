/** One sequence being sampled: its state, why it ends and what it becomes. */
import { PolicyError } from "../../../errors.ts";
import type { FinishReason, PolicyVersion, RandomKey, SampledSpan, SampleRequest, TokenConstraint } from "../../../types.ts";

export interface Sequence {
  readonly request: SampleRequest;
  readonly variant: string;
  /** Equal for sequences that begin with the same prompt: it is computed once. */
  readonly prompt: string;
  readonly key: RandomKey;
  /** Its index in the request. */
  readonly sample: number;
  readonly constraint: TokenConstraint | undefined;
  readonly ids: number[];
  readonly logprobs: number[];
  readonly version: PolicyVersion;
  readonly settle: (result: SampledSpan | Error) => void;
  /** Tokens whose keys and values are in the cache. */
  cached: number;
  /** Its constraint or its listener threw: it ends alone, before the next step. */
  failed?: Error;
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
  return isLate({ request }, now) ? { type: "timeout" } : undefined;
}

export const isAborted = ({ request, failed }: Sequence): boolean => failed !== undefined || request.signal?.aborted === true;
export const isLate = ({ request: { deadline } }: Pick<Sequence, "request">, now: number): boolean =>
  deadline !== undefined && now >= deadline;

export function spanOf({ request, version, ids, logprobs }: Sequence, finish: FinishReason): SampledSpan {
  return { kind: "sampled", ids: ids.slice(request.prompt.length), logprobs, finish, version, temperature: request.temperature };
}

export function abortError({ request, failed }: Sequence): Error {
  const reason: unknown = failed ?? request.signal?.reason;
  return reason instanceof Error ? reason : new PolicyError("sample: aborted by its caller");
}
