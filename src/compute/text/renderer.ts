/**
 * Messages to ids, one turn at a time. Sampled ids are never encoded again: the template renders text, the text that is already in
 * the row must be its beginning, and only the rest is encoded. Where the template rewrites earlier text (Qwen3 drops earlier
 * thinking), the answer is a new row, never a patched one.
 */
import { TokenizerError, expected, messageOf } from "../../errors.ts";
import { hash32 } from "../../random.ts";
import type { FinishReason, JsonObject, Message, ToolSpec, TurnParse } from "../../types.ts";
import type { ChatTemplate } from "./chat-template.ts";
import { checkDialect, chooseDialect } from "./dialects/choose.ts";
import { inReasoning, splitReasoning, type Dialect } from "./dialects/dialect.ts";
import { hermes } from "./dialects/hermes.ts";
import { guardMaker, type Guard, type GuardMaker } from "./guard.ts";
import { reasoningInContent, withoutToolRoles } from "./tool-prompt.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** What has been rendered so far; made and read by the renderer alone. */
export interface RenderState {
  readonly tools: readonly ToolSpec[];
  /** The conversation as messages, and which of them were sampled, with their exact text. */
  readonly messages: readonly Message[];
  readonly sampled: ReadonlyMap<number, string>;
  /** The row so far as text, generation prompt included. */
  readonly text: string;
}

interface SampledTurn {
  readonly ids: readonly number[];
  readonly message: Message;
  readonly finish: FinishReason;
}

type Extension =
  /** Context ids that follow the sampled ids in the same row. */
  | { readonly kind: "extend"; readonly ids: number[]; readonly state: RenderState }
  /** The whole next prompt; `reason` says what the template changed. */
  | { readonly kind: "new-row"; readonly ids: number[]; readonly reason: string; readonly state: RenderState };

interface ParsedMessage {
  readonly message: Message;
  readonly parse: TurnParse;
  /** Why the calls could not be read. */
  readonly malformed?: string;
}

export interface ChatRenderer {
  readonly tokenizer: Tokenizer;
  readonly dialect: Dialect;
  /** False if the template knows no tools and they go through system and user messages. */
  readonly nativeTools: boolean;
  /** The generation prompt has already opened a reasoning block, which the turn must close. */
  readonly opensThinking: boolean;
  /** Ids that end a turn: the template's own end of turn first. */
  readonly stopIds: readonly number[];
  /** Ids of the first prompt, generation prompt included. */
  start(messages: readonly Message[], tools?: readonly ToolSpec[]): { readonly ids: number[]; readonly state: RenderState };
  /** What follows a sampled turn: end of turn if it was cut, template glue, replies, generation prompt. */
  extend(state: RenderState, turn: SampledTurn, replies: readonly Message[]): Extension;
  /** Reads a sampled turn. `tools` types bare values and, where empty, turns calls off. */
  parseTurn(ids: readonly number[], finish: FinishReason, tools?: readonly ToolSpec[]): ParsedMessage;
  /**
   * What is certain of the content of an unfinished turn with this text: it only grows, and is a beginning of the content that
   * `parseTurn` will give. Empty while the turn is reasoning.
   */
  settled(text: string, tools: readonly ToolSpec[]): string;
  /** The ids that sampling `message` after `state` would give, end of turn included; for supervised rows and never for sampled ones. */
  encodeTurn(state: RenderState, message: Message): number[];
}

interface RendererOptions {
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
  /** Chosen by what the template writes if left out. */
  readonly dialect?: Dialect;
  /** Template variables, such as `enable_thinking`. */
  readonly variables?: JsonObject;
}

/** Opens a renderer. Throws `TokenizerError` if template, dialect and tokenizer do not fit together. */
export function openRenderer(options: RendererOptions): ChatRenderer {
  const { tokenizer, template, variables = {} } = options;
  const native = chooseDialectOr(template, options.dialect);
  if (options.dialect !== undefined) checkDialect(template, options.dialect);
  const dialect = options.dialect ?? native ?? hermes;
  return new TemplateRenderer({ tokenizer, template, variables, dialect, nativeTools: native !== undefined });
}

function chooseDialectOr(template: ChatTemplate, given: Dialect | undefined): Dialect | undefined {
  try {
    return chooseDialect(template);
  } catch (cause) {
    if (given === undefined) throw cause;
    return given;
  }
}

interface Parts {
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
  readonly variables: JsonObject;
  readonly dialect: Dialect;
  readonly nativeTools: boolean;
}

type Unrendered = Omit<RenderState, "text">;
type Attempt = { readonly marked: string; readonly error?: undefined } | { readonly marked?: undefined; readonly error: string };

/** What `extend` found when the template changed earlier text: `again` is the conversation rendered anew. */
interface Rewritten {
  readonly next: Unrendered;
  readonly again: Attempt;
  readonly before: string;
}

class TemplateRenderer implements ChatRenderer {
  readonly tokenizer: Tokenizer;
  readonly dialect: Dialect;
  readonly nativeTools: boolean;
  readonly stopIds: readonly number[];
  private readonly parts: Parts;
  private readonly guards: GuardMaker;
  private readonly printsReasoning: boolean;
  readonly opensThinking: boolean;
  /** What the template writes after a turn's end token. */
  private readonly afterTurn: string;

  constructor(parts: Parts) {
    this.parts = parts;
    this.tokenizer = parts.tokenizer;
    this.dialect = parts.dialect;
    this.nativeTools = parts.nativeTools;
    this.guards = guardMaker(parts.tokenizer);
    const { template, variables } = parts;
    const question: Message = { role: "user", content: "Q" };
    const turn: Message = { role: "assistant", content: "Sample answer", reasoning: "Sample reason" };
    const answer = template.renderChat([question, turn], { addGenerationPrompt: false, variables });
    this.printsReasoning = answer.includes("Sample reason");
    this.opensThinking = template.renderChat([question], { addGenerationPrompt: true, variables }).trimEnd().endsWith("<think>");
    const after = answer.slice(answer.lastIndexOf("Sample answer") + "Sample answer".length);
    const end = this.tokenizer.specials.find(({ text }) => after.startsWith(text));
    if (end === undefined) {
      const remedy = "add its end of turn to the tokenizer's special tokens, or end turns with the eos_token in the template";
      const want = "an end of turn that is one special token, so that the model can stop";
      throw new TokenizerError(expected(`chat template of ${template.name}`, want, JSON.stringify(after), remedy));
    }
    this.afterTurn = after.slice(end.text.length);
    this.stopIds = [...new Set([end.id, ...this.tokenizer.eosIds])];
  }

  start(messages: readonly Message[], tools: readonly ToolSpec[] = []): { readonly ids: number[]; readonly state: RenderState } {
    const guard = this.guards([messages, tools]);
    const marked = this.render(guard, { tools, messages, sampled: new Map() }, true);
    return { ids: guard.encode(marked), state: { tools, messages, sampled: new Map(), text: guard.strip(marked) } };
  }

  extend(state: RenderState, turn: SampledTurn, replies: readonly Message[]): Extension {
    const ended = this.ends(turn.ids);
    const content = this.tokenizer.decode(ended ? turn.ids.slice(0, -1) : turn.ids);
    const before = state.text + this.tokenizer.decode(turn.ids);
    const messages = [...state.messages, turn.message, ...replies];
    const sampled = new Map(state.sampled).set(state.messages.length, content);
    const next = { tools: state.tools, messages, sampled };
    const guard = this.guards([messages, state.tools, ...sampled.values()]);
    const continued = ({ marked }: Attempt): Extension | undefined => {
      const text = marked === undefined ? "" : guard.strip(marked);
      if (marked === undefined || !text.startsWith(before)) return undefined;
      return { kind: "extend", ids: guard.encode(guard.after(marked, before.length)), state: { ...next, text } };
    };
    const extension = continued(this.attempt(guard, next));
    if (extension !== undefined) return extension;
    const again = this.attempt(guard, { ...next, sampled: new Map() });
    return continued(again) ?? this.newRow(guard, { next, again, before });
  }

  private newRow(guard: Guard, { next, again, before }: Rewritten): Extension {
    // A template may refuse what the model did (Llama's: two calls in a turn); then the turns stand as plain text.
    const plain = next.messages.map((message, index) => {
      const exact = next.sampled.get(index);
      return exact === undefined ? message : { role: "assistant" as const, content: exact };
    });
    const kept = { ...next, messages: again.marked === undefined ? plain : next.messages, sampled: new Map<number, string>() };
    const marked = again.marked ?? this.render(guard, kept, true);
    const text = guard.strip(marked);
    const reason = again.error ?? `chat template of ${this.parts.template.name}: ${difference(before, text)}`;
    return { kind: "new-row", ids: guard.encode(marked), reason, state: { ...kept, text } };
  }

  parseTurn(ids: readonly number[], finish: FinishReason, tools?: readonly ToolSpec[]): ParsedMessage {
    const text = this.tokenizer.decode(this.ends(ids) ? ids.slice(0, -1) : ids);
    const { reasoning, rest } = splitReasoning(text, this.opensThinking);
    const base = { role: "assistant" as const, ...(reasoning === undefined ? {} : { reasoning }) };
    const whole: Message = { ...base, content: rest };
    if (finish.type !== "eos" && finish.type !== "stopString") return { message: whole, parse: "truncated" };
    if (tools !== undefined && tools.length === 0) return { message: whole, parse: "answer" };
    const found = this.dialect.parse(text, { insideReasoning: this.opensThinking, ...(tools === undefined ? {} : { tools }) });
    if (found.malformed !== null) return { message: whole, parse: "malformedToolCall", malformed: found.malformed };
    if (found.calls.length === 0) return { message: whole, parse: "answer" };
    const key = hash32(ids.join()).toString(36);
    const toolCalls = found.calls.map((call, index) => ({ id: `call_${key}_${index}`, ...call }));
    return { message: { ...base, content: found.content, toolCalls }, parse: "toolCalls" };
  }

  settled(text: string, tools: readonly ToolSpec[]): string {
    if (inReasoning(text, this.opensThinking)) return "";
    const { rest } = splitReasoning(text, this.opensThinking);
    return tools.length === 0 ? rest : rest.slice(0, this.dialect.settled(rest));
  }

  encodeTurn(state: RenderState, message: Message): number[] {
    const messages = [...state.messages, message];
    const guard = this.guards([messages, state.tools, ...state.sampled.values()]);
    const marked = this.render(guard, { tools: state.tools, messages, sampled: state.sampled }, false);
    const text = guard.strip(marked);
    if (!text.startsWith(state.text) || !text.endsWith(this.afterTurn)) {
      const where = `chat template of ${this.parts.template.name}`;
      throw new TokenizerError(expected(where, "a turn that continues its prompt", difference(state.text, text)));
    }
    const tail = guard.after(marked, state.text.length);
    return guard.encode(tail.slice(0, tail.length - this.afterTurn.length));
  }

  private ends(ids: readonly number[]): boolean {
    const last = ids[ids.length - 1];
    return last !== undefined && this.stopIds.includes(last);
  }

  private attempt(guard: Guard, state: Unrendered): Attempt {
    try {
      return { marked: this.render(guard, state, true) };
    } catch (cause) {
      return { error: messageOf(cause) };
    }
  }

  /** Turns in `sampled` stand as their exact text, which nobody encodes; everything else is guarded. */
  private render(guard: Guard, state: Unrendered, addGenerationPrompt: boolean): string {
    const messages = state.messages.map((message, index): Message => {
      const exact = state.sampled.get(index);
      if (exact !== undefined) return { role: "assistant", content: exact };
      return this.printsReasoning ? guard.message(message) : reasoningInContent(guard.message(message));
    });
    const tools = state.tools.map((tool) => guard.tool(tool));
    const { template, variables } = this.parts;
    if (this.nativeTools) return template.renderChat(messages, { tools, addGenerationPrompt, variables });
    return template.renderChat(withoutToolRoles(messages, tools, this.dialect), { addGenerationPrompt, variables });
  }
}

function difference(had: string, now: string): string {
  let at = 0;
  while (at < had.length && had[at] === now[at]) at++;
  const show = (text: string): string => JSON.stringify(text.slice(at, at + 24));
  return `the template rewrites the text from character ${at}: it was ${show(had)} and is now ${show(now)}`;
}
