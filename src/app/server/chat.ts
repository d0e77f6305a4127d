/** `POST /v1/chat/completions`: messages to a prompt, sampled turns to messages, whole or as a stream. */
import { randomUUID } from "node:crypto";
import type { GrammarConstraint } from "../../compute/text/grammar/constraint.ts";
import type { DrawnToken, Message, SampledSpan, TurnParse } from "../../types.ts";
import type { Opened } from "./capture/session.ts";
import type { TurnConstraints } from "./constraint.ts";
import { factsOf, generate, lease, roomFor, seedOf, usageOf, versionHeader, type AnswerFacts, type Lease } from "./generate.ts";
import { chatLogprobs, type TokenReport } from "./logprobs.ts";
import { callToOpenAi, toOpenAi } from "./messages.ts";
import type { ChatRequest } from "./requests.ts";
import { adapterOf, type Service } from "./service.ts";
import { eventStream } from "./sse.ts";
import { cutAtStop, TurnText } from "./turn-text.ts";

/** One request on its way: what was asked, where its prompt stands, and the weights that will answer. */
interface Call {
  readonly service: Service;
  readonly request: ChatRequest;
  readonly opened: Opened;
  readonly granted: Lease;
  readonly facts: AnswerFacts;
}

interface Answer {
  readonly message: Message;
  readonly parse: TurnParse;
  readonly finish: "stop" | "length" | "tool_calls";
}

/** `open` finds the place of the messages in a session, or renders them anew. */
export async function chat(
  service: Service,
  request: ChatRequest,
  { open, signal }: { readonly open: () => Opened; readonly signal: AbortSignal },
): Promise<Response> {
  adapterOf(service, request.sampling.model);
  const constraint = service.constraints.of(request);
  const opened = open();
  let granted: Lease | undefined;
  try {
    const left = roomFor(service, opened.ids.length, request.sampling.maxTokens);
    constraint?.().allow(new Uint8Array(service.policy.engine.info.vocabulary), left); // refuses what cannot be said in that many tokens
    granted = await lease(service, signal);
    const facts = factsOf("chatcmpl", request.sampling.model, granted.version);
    const call: Call = { service, request, opened, granted, facts };
    return request.sampling.stream ? streamed(call, constraint) : await whole(call, constraint);
  } catch (cause) {
    opened.release();
    granted?.release();
    throw cause;
  }
}

type Constraint = ReturnType<TurnConstraints["of"]>;

/** Samples, reads the turns and records them; whatever happens, the place and the gate are given back. */
async function answers(
  call: Call,
  constraint: Constraint,
  onToken: (token: DrawnToken) => void,
): Promise<readonly [Answer[], readonly SampledSpan[]]> {
  const { service, request, opened, granted } = call;
  const made: GrammarConstraint[] = []; // in the order of the answers
  const make = (): GrammarConstraint => {
    made.push(constraint!());
    return made.at(-1)!;
  };
  try {
    const { stopIds } = service.policy.renderer;
    const prompt = { ids: opened.ids, index: 0, stopIds, ...(constraint === undefined ? {} : { constraint: make }) };
    const options = { sampling: request.sampling, seed: seedOf(request.sampling), signal: granted.abort.signal, onToken };
    const spans = await generate(service, prompt, options);
    const read = spans.map((span, i) => readAnswer(call, span, made[i]?.cut ?? false));
    opened.commit(spans.map((span, i) => ({ span, message: read[i]!.message, parse: read[i]!.parse })));
    service.sessions.makeRoom();
    return [read, spans];
  } finally {
    opened.release();
    granted.release();
  }
}

/** Call ids are unique among all answers; equal turns would else have equal ids. A turn that the token limit has closed is cut. */
function readAnswer({ service, request }: Call, { ids, finish }: SampledSpan, cut: boolean): Answer {
  const tools = request.toolChoice.type === "none" ? [] : request.tools;
  const { message: parsed, parse } = service.policy.renderer.parseTurn(ids, finish, tools);
  const toolCalls = parsed.toolCalls?.map((one) => ({ ...one, id: `call_${randomUUID().replaceAll("-", "")}` }));
  const message: Message = {
    ...parsed,
    content: cutAtStop(parsed.content, request.sampling.stop),
    ...(toolCalls === undefined ? {} : { toolCalls }),
  };
  if (cut) return { message, parse: "truncated", finish: "length" };
  return { message, parse, finish: finishOf(finish, toolCalls !== undefined) };
}

function finishOf(finish: SampledSpan["finish"], calls: boolean): Answer["finish"] {
  switch (finish.type) {
    case "eos":
    case "stopString":
      return calls ? "tool_calls" : "stop";
    case "length":
    case "timeout":
      return "length";
    case "error":
      throw new Error(finish.message);
  }
}

async function whole(call: Call, constraint: Constraint): Promise<Response> {
  const { request, facts, opened, granted, service } = call;
  const reports: TokenReport[][] = Array.from({ length: request.sampling.count }, () => []);
  const [found, spans] = await answers(call, constraint, (token) => reports[token.sample]!.push(token));
  const choices = found.map(({ message, finish }, index) => ({
    index,
    message: toOpenAi(message),
    logprobs: chatLogprobs(reports[index]!, service.policy.renderer, request.sampling),
    finish_reason: finish,
  }));
  const body = { ...facts, object: "chat.completion", choices, usage: usageOf(opened.ids.length, spans) };
  return Response.json(body, { headers: versionHeader(granted.version) });
}

function streamed(call: Call, constraint: Constraint): Response {
  const { service, request, facts, opened, granted } = call;
  const { renderer } = service.policy;
  const { sampling, toolChoice } = request;
  const tools = toolChoice.type === "none" ? [] : request.tools;
  const usage = sampling.includeUsage ? { usage: null } : {};
  const write = async (send: (data: unknown) => void): Promise<void> => {
    const chunk = (index: number, delta: object, rest: { finish?: string; tokens?: readonly TokenReport[] } = {}): void => {
      const logprobs = rest.tokens === undefined ? null : chatLogprobs(rest.tokens, renderer, sampling);
      const choice = { index, delta, logprobs, finish_reason: rest.finish ?? null };
      send({ ...facts, object: "chat.completion.chunk", choices: [choice], ...usage });
    };
    const texts = Array.from({ length: sampling.count }, () => {
      const { tokenizer, stopIds } = renderer;
      return new TurnText({ tokenizer, stopIds, stop: sampling.stop, settled: (text) => renderer.settled(text, tools) });
    });
    texts.forEach((_, index) => chunk(index, { role: "assistant", content: "" }));
    const [found, spans] = await answers(call, constraint, (token) => {
      const content = texts[token.sample]!.push(token.id);
      if (content !== "" || sampling.logprobs !== undefined) chunk(token.sample, { content }, { tokens: [token] });
    });
    found.forEach(({ message, finish }, index) => {
      if (message.reasoning !== undefined) chunk(index, { reasoning_content: message.reasoning });
      const rest = texts[index]!.finish(message.content);
      if (rest !== "") chunk(index, { content: rest });
      for (const delta of callDeltas(message)) chunk(index, { tool_calls: [delta] });
      chunk(index, {}, { finish });
    });
    if (sampling.includeUsage) send({ ...facts, object: "chat.completion.chunk", choices: [], usage: usageOf(opened.ids.length, spans) });
  };
  const onCancel = (): void => granted.abort.abort(new Error("the client has left"));
  return eventStream(write, { headers: versionHeader(granted.version), onCancel });
}

/** A call as the deltas that clients put together: its id and name, then its arguments. It is sent when the turn was read as a whole. */
function* callDeltas({ toolCalls = [] }: Message): Generator<object> {
  for (const [index, one] of toolCalls.entries()) {
    const { id, type, function: named } = callToOpenAi(one);
    yield { index, id, type, function: { name: named.name, arguments: "" } };
    yield { index, function: { arguments: named.arguments } };
  }
}
