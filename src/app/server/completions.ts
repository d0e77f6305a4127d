/** `POST /v1/completions`: text or ids as they are, without a chat template; special tokens in the text are special tokens. */
import type { DrawnToken, SampledSpan } from "../../types.ts";
import type { Opened } from "./capture/session.ts";
import { wrongField } from "./errors.ts";
import { factsOf, generate, lease, roomFor, seedOf, usageOf, versionHeader, type Lease, type Prompt } from "./generate.ts";
import { completionLogprobs, type TokenReport } from "./logprobs.ts";
import type { CompletionRequest } from "./requests.ts";
import { adapterOf, type Service } from "./service.ts";
import { eventStream } from "./sse.ts";
import { TurnText } from "./turn-text.ts";

interface CompletionOptions {
  /** A place for the answers to a prompt, in the session that the request belongs to. */
  readonly open: (prompt: readonly number[]) => Opened | undefined;
  readonly signal: AbortSignal;
}

export async function complete(service: Service, request: CompletionRequest, { open, signal }: CompletionOptions): Promise<Response> {
  const { sampling } = request;
  adapterOf(service, sampling.model);
  const prompts = promptsOf(service, request);
  const granted = await lease(service, signal);
  const seed = seedOf(sampling);
  const places = prompts.map(({ ids }) => open(ids));
  const run: Completion["run"] = async (onToken) => {
    try {
      const sampled = prompts.map(async (prompt) => {
        const told = (token: DrawnToken): void => onToken(prompt.index * sampling.count + token.sample, token);
        return generate(service, prompt, { sampling, seed, signal: granted.abort.signal, onToken: told });
      });
      const spans = await Promise.all(sampled).catch((cause: unknown) => {
        granted.abort.abort(cause); // the others of the request are for nobody
        throw cause;
      });
      places.forEach((place, i) => place?.commit(spans[i]!.map((span) => rawTurn(service, span))));
      return spans.flat();
    } finally {
      for (const place of places) place?.release();
      granted.release();
    }
  };
  const length = prompts.reduce((sum, { ids }) => sum + ids.length, 0);
  const completion: Completion = { service, request, granted, run, length, count: prompts.length * sampling.count };
  return sampling.stream ? streamed(completion) : await whole(completion);
}

/** An answer to a raw prompt is text, and is read as nothing else. */
function rawTurn({ policy: { renderer } }: Service, span: SampledSpan): Parameters<Opened["commit"]>[0][number] {
  const content = renderer.tokenizer.decode(span.ids.filter((id) => !renderer.stopIds.includes(id)));
  return { span, message: { role: "assistant", content }, parse: span.finish.type === "length" ? "truncated" : "answer" };
}

interface Completion {
  readonly service: Service;
  readonly request: CompletionRequest;
  readonly granted: Lease;
  /** Samples; the answers are numbered over all prompts. */
  readonly run: (onToken: (answer: number, token: DrawnToken) => void) => Promise<readonly SampledSpan[]>;
  /** Tokens of all prompts. */
  readonly length: number;
  /** Answers of all prompts. */
  readonly count: number;
}

function promptsOf(service: Service, { prompts, sampling }: CompletionRequest): readonly Prompt[] {
  const { tokenizer, stopIds } = service.policy.renderer;
  const { vocabulary } = service.policy.engine.info;
  return prompts.map((given, index) => {
    const ids = typeof given === "string" ? tokenizer.encode(given) : given;
    if (ids.length === 0) throw wrongField("prompt", "expected at least one token, got none");
    const wrong = ids.find((id) => id < 0 || id >= vocabulary);
    if (wrong !== undefined) throw wrongField("prompt", `expected ids below ${vocabulary}, got ${wrong}`);
    roomFor(service, ids.length, sampling.maxTokens);
    return { ids, index, stopIds };
  });
}

function textsOf({ service, request, count }: Completion): readonly TurnText[] {
  const { tokenizer, stopIds } = service.policy.renderer;
  return Array.from({ length: count }, () => new TurnText({ tokenizer, stopIds, stop: request.sampling.stop, settled: (text) => text }));
}

const headOf = ({ request, granted }: Completion): object => ({
  ...factsOf("cmpl", request.sampling.model, granted.version),
  object: "text_completion",
});

const reasonOf = ({ finish }: SampledSpan): "stop" | "length" =>
  finish.type === "eos" || finish.type === "stopString" ? "stop" : "length";

async function whole(completion: Completion): Promise<Response> {
  const { service, request, granted, run, length } = completion;
  const texts = textsOf(completion);
  const reports: TokenReport[][] = texts.map(() => []);
  const pieces = texts.map(() => "");
  const spans = await run((answer, token) => {
    reports[answer]!.push(token);
    pieces[answer] += texts[answer]!.push(token.id);
  });
  const choices = spans.map((span, index) => ({
    index,
    text: pieces[index]! + texts[index]!.end(),
    logprobs: completionLogprobs(reports[index]!, service.policy.renderer, request.sampling),
    finish_reason: reasonOf(span),
  }));
  const body = { ...headOf(completion), choices, usage: usageOf(length, spans) };
  return Response.json(body, { headers: versionHeader(granted.version) });
}

function streamed(completion: Completion): Response {
  const { service, request, granted, run, length } = completion;
  const { sampling } = request;
  const [texts, head] = [textsOf(completion), headOf(completion)];
  const write = async (send: (data: unknown) => void): Promise<void> => {
    const chunk = (index: number, text: string, rest: { finish?: string; token?: TokenReport } = {}): void => {
      const logprobs = rest.token === undefined ? null : completionLogprobs([rest.token], service.policy.renderer, sampling);
      const choice = { index, text, logprobs, finish_reason: rest.finish ?? null };
      send({ ...head, choices: [choice], ...(sampling.includeUsage ? { usage: null } : {}) });
    };
    const spans = await run((answer, token) => {
      const text = texts[answer]!.push(token.id);
      if (text !== "" || sampling.logprobs !== undefined) chunk(answer, text, { token });
    });
    spans.forEach((span, index) => chunk(index, texts[index]!.end(), { finish: reasonOf(span) }));
    if (sampling.includeUsage) send({ ...head, choices: [], usage: usageOf(length, spans) });
  };
  return eventStream(write, {
    headers: versionHeader(granted.version),
    onCancel: () => granted.abort.abort(new Error("the client has left")),
  });
}
