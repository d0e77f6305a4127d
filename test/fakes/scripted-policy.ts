/** A policy that says what a test tells it to, token by token, through a real renderer; it keeps every request that it was sent. */
import type { Policy } from "../../src/loop/rollout/episode.ts";
import type { EngineInfo, FinishReason, PolicyVersion, SampledSpan, SampleRequest } from "../../src/types.ts";
import { endOf, rendererOf, type Family } from "./chat-families.ts";

/** What one turn says: text (the end of turn is added), or ids as they are with the reason why they end. */
export type Said = string | { readonly ids: readonly number[]; readonly finish: FinishReason };

export interface ScriptedPolicy extends Policy {
  readonly requests: readonly SampleRequest[];
  readonly end: number;
  encode(text: string): number[];
}

export interface ScriptedOptions {
  readonly family?: Family;
  readonly contextLength?: number;
}

/** `say` is asked at every turn; `turn` counts the requests so far of the same first ids, so it is the turn of an episode played alone. */
export function scriptedPolicy(
  say: (turn: number, request: SampleRequest) => Said | Promise<Said>,
  { family = "qwen2.5", contextLength = 4096 }: ScriptedOptions = {},
): ScriptedPolicy {
  const renderer = rendererOf(family);
  const { tokenizer } = renderer;
  const end = tokenizer.idOf(endOf(family))!;
  const requests: SampleRequest[] = [];
  const info: EngineInfo = {
    model: "scripted", family: "none", parameters: 0, trainable: 0, vocabulary: tokenizer.size, contextLength, adapters: [],
  };
  const sample = async (request: SampleRequest): Promise<readonly SampledSpan[]> => {
    requests.push(request);
    const said = await say(requests.length - 1, request);
    request.signal?.throwIfAborted();
    const { ids, finish } =
      typeof said === "string" ? { ids: [...tokenizer.encode(said), end], finish: { type: "eos", id: end } as const } : said;
    const logprobs = ids.map((_, t) => -(t + 1) / 8);
    const { temperature } = request;
    return [{ kind: "sampled", ids, logprobs, finish, version: 0 as PolicyVersion, temperature }];
  };
  return { engine: { info, sample }, renderer, requests, end, encode: (text) => tokenizer.encode(text) };
}
