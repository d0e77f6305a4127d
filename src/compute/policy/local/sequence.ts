/** One sequence being sampled: its state, why it ends and what it becomes. */
import { PolicyError } from "../../../errors.ts";
import { uniform } from "../../../random.ts";
import type { FinishReason, PolicyVersion, RandomKey, SampledSpan, SampleRequest } from "../../../types.ts";
import { floats, HostTensor, integers } from "../../tensor/host.ts";
import { blockSize } from "./sampling.ts";

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

/** What the decoding program needs to draw a token for each row: see `sampleFromLogits`. */
export function drawInputs(rows: readonly Sequence[], vocabulary: number): Record<string, HostTensor> {
  const blocks = Math.ceil(vocabulary / blockSize(vocabulary));
  const shape = [rows.length, 1];
  const inverse = ({ request: { temperature } }: Sequence): number => (temperature === 0 ? 1 : 1 / temperature);
  return {
    inverseTemperature: floats(rows.map(inverse), shape),
    uniform: floats(rows.map(({ key, logprobs }) => uniform(key, logprobs.length)), shape),
    rowOffset: integers(rows.map((_, row) => row * blocks), shape),
    isGreedy: new HostTensor(Uint8Array.from(rows, ({ request }) => Number(request.temperature === 0)), shape),
  };
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

export const isAborted = ({ request }: Sequence): boolean => request.signal?.aborted === true;
export const isLate = ({ request: { deadline } }: Pick<Sequence, "request">, now: number): boolean =>
  deadline !== undefined && now >= deadline;

export function spanOf({ request, version, ids, logprobs }: Sequence, finish: FinishReason): SampledSpan {
  return { kind: "sampled", ids: ids.slice(request.prompt.length), logprobs, finish, version, temperature: request.temperature };
}

export function abortError(request: SampleRequest): Error {
  const reason: unknown = request.signal?.reason;
  return reason instanceof Error ? reason : new PolicyError("sample: aborted by its caller");
}
