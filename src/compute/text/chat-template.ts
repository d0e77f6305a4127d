/**
 * A model's chat template: internal messages in, the text that Python's `apply_chat_template` gives out.
 * Text alone; tokens and the guard against forged special tokens are the renderer's.
 */
import { TokenizerError, expected, messageOf } from "../../errors.ts";
import type { Json, JsonObject, Message, ToolCall, ToolSpec } from "../../types.ts";
import { compileJinja, type Render } from "./jinja.ts";

interface RenderOptions {
  readonly tools?: readonly ToolSpec[];
  readonly addGenerationPrompt: boolean;
  /** Further variables that the template reads, such as `enable_thinking`. */
  readonly variables?: JsonObject;
}

export interface ChatTemplate {
  /** For messages: which model's template this is. */
  readonly name: string;
  readonly source: string;
  /** Throws `TokenizerError` with what the template raised. */
  renderChat(messages: readonly Message[], options: RenderOptions): string;
}

/** Llama's templates print a date; it is fixed so that a run does not depend on the day. Override it with `variables.date_string`. */
const DEFAULT_DATE = "26 Jul 2024";
const SPECIAL_NAMES = ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"] as const;

/**
 * The template inside `tokenizerConfig.chat_template` (a string, or a list of named ones of which "default" is taken), with the
 * config's special tokens as variables. Throws `TokenizerError` if there is none, if it is not a template, or if it has no
 * generation prompt.
 */
export function openChatTemplate(tokenizerConfig: JsonObject, name: string, variables: JsonObject = {}): ChatTemplate {
  const source = sourceOf(tokenizerConfig.chat_template);
  if (source === undefined) {
    const remedy = "use the -Instruct variant of the model, or set chat_template in tokenizer_config.json";
    throw new TokenizerError(expected(`tokenizer of ${name}`, "a chat template", "none", remedy));
  }
  const base: Record<string, Json> = { date_string: DEFAULT_DATE, tools: null, documents: null };
  for (const special of SPECIAL_NAMES) {
    const text = tokenText(tokenizerConfig[special]);
    if (text !== undefined) base[special] = text;
  }
  const template = new JinjaChatTemplate(name, source, { ...base, ...variables });
  checkGenerationPrompt(template);
  return template;
}

/** A special token of a tokenizer config: a string, or an object with `content`. */
export function tokenText(value: Json | undefined): string | undefined {
  if (typeof value === "string") return value;
  if (value === null || typeof value !== "object" || Array.isArray(value)) return undefined;
  const content = (value as JsonObject).content;
  return typeof content === "string" ? content : undefined;
}

class JinjaChatTemplate implements ChatTemplate {
  readonly name: string;
  readonly source: string;
  private readonly variables: JsonObject;
  private readonly render: Render;

  constructor(name: string, source: string, variables: JsonObject) {
    this.name = name;
    this.source = source;
    this.variables = variables;
    try {
      this.render = compileJinja(source);
    } catch (cause) {
      throw new TokenizerError(`chat template of ${name}: cannot be read: ${messageOf(cause)}`, { cause });
    }
  }

  renderChat(messages: readonly Message[], options: RenderOptions): string {
    try {
      return this.render({
        ...this.variables,
        ...options.variables,
        ...(options.tools === undefined || options.tools.length === 0 ? {} : { tools: options.tools.map(toolForm) }),
        messages: messages.map(messageForm),
        add_generation_prompt: options.addGenerationPrompt,
      });
    } catch (cause) {
      throw new TokenizerError(`chat template of ${this.name}: ${messageOf(cause)}`, { cause });
    }
  }
}

function sourceOf(value: Json | undefined): string | undefined {
  if (typeof value === "string") return value === "" ? undefined : value;
  if (!Array.isArray(value)) return undefined;
  const named = value as readonly JsonObject[];
  return sourceOf((named.find((entry) => entry.name === "default") ?? named[0])?.template);
}

/** The form that templates expect: keys that a message does not have are left out, since templates ask `'tool_calls' in message`. */
function messageForm(message: Message): JsonObject {
  const { role, content, toolCalls, reasoning, toolCallId, name } = message;
  return {
    role,
    content,
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCalls === undefined || toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map(callForm) }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(name === undefined ? {} : { name }),
  };
}

function callForm({ id, name, arguments: args }: ToolCall): JsonObject {
  return { id, type: "function", function: { name, arguments: args } };
}

function toolForm(tool: ToolSpec): JsonObject {
  return { type: "function", function: { name: tool.name, description: tool.description, parameters: tool.parameters } };
}

/** A prompt that does not open the assistant's turn trains on a continuation of the user's: refused at start-up. */
function checkGenerationPrompt(template: ChatTemplate): void {
  const messages: readonly Message[] = [{ role: "user", content: "Hello" }];
  const open = template.renderChat(messages, { addGenerationPrompt: true });
  const closed = template.renderChat(messages, { addGenerationPrompt: false });
  if (open !== closed) return;
  throw new TokenizerError(
    expected(
      `chat template of ${template.name}`,
      "a generation prompt when add_generation_prompt is true",
      "the same text with and without it",
      "add `{% if add_generation_prompt %}…{% endif %}` that opens the assistant's turn",
    ),
  );
}
