/** `POST /v1/completions`: text or ids as they are, without a chat template; special tokens in the text are special tokens. */
import type { DrawnToken, SampledSpan } from "../../types.ts";
import { wrongField } from "./errors.ts";
import { factsOf, generate, lease, roomFor, seedOf, usageOf, versionHeader, type Lease, type Prompt } from "./generate.ts";
import { completionLogprobs, type TokenReport } from "./logprobs.ts";
import type { CompletionRequest } from "./requests.ts";
import { adapterOf, type Service } from "./service.ts";
import { eventStream } from "./sse.ts";
import { TurnText } from "./turn-text.ts";

/** Told of every prompt with its spans, for the session that the request belongs to. */
type Record = (prompt: readonly number[], spans: readonly SampledSpan[]) => void;

interface CompletionOptions {
  readonly record: Record;
  readonly signal: AbortSignal;
}

export async function complete(service: Service, request: CompletionRequest, { record, signal }: CompletionOptions): Promise<Response> {
  const { sampling } = request;
  adapterOf(service, sampling.model);
  const { tokenizer, stopIds } = service.policy.renderer;
  const prompts = request.prompts.map((given, index): Prompt => {
    const ids = typeof given === "string" ? tokenizer.encode(given) : given;
    const { vocabulary } = service.policy.engine.info;
    if (ids.length === 0) throw wrongField("prompt", "expected at least one token, got none");
    const wrong = ids.find((id) => id < 0 || id >= vocabulary);
    if (wrong !== undefined) throw wrongField("prompt", `expected ids below ${vocabulary}, got ${wrong}`);
    roomFor(service, ids.length, sampling.maxTokens);
    return { ids, index, stopIds };
  });
  const granted = await lease(service, signal);
  const facts = factsOf("cmpl", sampling.model, granted.version);
  const { abort } = granted;
  const seed = seedOf(sampling);
  const run = async (onToken: (choice: number, token: DrawnToken) => void): Promise<readonly (readonly SampledSpan[])[]> => {
    try {
      const choiceOf = (prompt: Prompt, sample: number): number => prompt.index * sampling.count + sample;
      const sampled = prompts.map(async (prompt) => {
        const told = (token: DrawnToken): void => onToken(choiceOf(prompt, token.sample), token);
        return generate(service, prompt, { sampling, seed, signal: abort.signal, onToken: told });
      });
      const spans = await Promise.all(sampled).catch((cause: unknown) => {
        abort.abort(cause);
        throw cause;
      });
      prompts.forEach(({ ids }, i) => record(ids, spans[i]!));
      return spans;
    } finally {
      granted.release();
    }
  };
  const size = prompts.length * sampling.count;
  const usage = (spans: readonly (readonly SampledSpan[])[]): object =>
    usageOf(
      prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      spans.flat(),
    );
  const texts = Array.from({ length: size }, () => new TurnText({ tokenizer, stopIds, stop: sampling.stop, settled: (text) => text }));
  const head = { ...facts, object: "text_completion" };
  return sampling.stream
    ? streamed({ run, texts, head, usage, request, service, granted, abort })
    : await whole({ run, texts, head, usage, request, service, granted, abort });
}

interface Completion {
  readonly run: (onToken: (choice: number, token: DrawnToken) => void) => Promise<readonly (readonly SampledSpan[])[]>;
  readonly texts: readonly TurnText[];
  readonly head: object;
  readonly usage: (spans: readonly (readonly SampledSpan[])[]) => object;
  readonly request: CompletionRequest;
  readonly service: Service;
  readonly granted: Lease;
  readonly abort: AbortController;
}

const reasonOf = ({ finish }: SampledSpan): "stop" | "length" =>
  finish.type === "eos" || finish.type === "stopString" ? "stop" : "length";

async function whole({ run, texts, head, usage, request, service, granted }: Completion): Promise<Response> {
  const reports: TokenReport[][] = texts.map(() => []);
  const pieces = texts.map(() => "");
  const spans = await run((choice, token) => {
    reports[choice]!.push(token);
    pieces[choice] += texts[choice]!.push(token.id);
  });
  const choices = spans.flat().map((span, index) => ({
    index,
    text: pieces[index]! + texts[index]!.end(),
    logprobs: completionLogprobs(reports[index]!, service.policy.renderer, request.sampling),
    finish_reason: reasonOf(span),
  }));
  return Response.json({ ...head, choices, usage: usage(spans) }, { headers: versionHeader(granted.version) });
}

function streamed({ run, texts, head, usage, request, service, granted, abort }: Completion): Response {
  const { sampling } = request;
  const write = async (send: (data: unknown) => void): Promise<void> => {
    const chunk = (index: number, text: string, rest: { finish?: string; token?: TokenReport } = {}): void => {
      const logprobs = rest.token === undefined ? null : completionLogprobs([rest.token], service.policy.renderer, sampling);
      const choice = { index, text, logprobs, finish_reason: rest.finish ?? null };
      send({ ...head, choices: [choice], ...(sampling.includeUsage ? { usage: null } : {}) });
    };
    const spans = await run((choice, token) => {
      const text = texts[choice]!.push(token.id);
      if (text !== "" || sampling.logprobs !== undefined) chunk(choice, text, { token });
    });
    spans.flat().forEach((span, index) => chunk(index, texts[index]!.end(), { finish: reasonOf(span) }));
    if (sampling.includeUsage) send({ ...head, choices: [], usage: usage(spans) });
  };
  return eventStream(write, { headers: versionHeader(granted.version), onCancel: () => abort.abort(new Error("the client has left")) });
}
