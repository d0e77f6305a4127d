/** Messages and tools: OpenAI's form to ours and back. */
import { z } from "zod";
import { messageOf } from "../../errors.ts";
import { parseJsonStrict } from "../../json.ts";
import type { JsonObject, Message, ToolCall, ToolSpec } from "../../types.ts";
import { wrongField } from "./errors.ts";

const text = z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]);
const call = z.looseObject({
  id: z.string(),
  type: z.literal("function").optional(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});
export const messageSchema = z.discriminatedUnion("role", [
  z.looseObject({ role: z.literal(["system", "developer", "user"]), content: text }),
  z.looseObject({
    role: z.literal("assistant"),
    content: text.nullish(),
    tool_calls: z.array(call).nullish(),
    reasoning_content: z.string().nullish(),
  }),
  z.looseObject({ role: z.literal("tool"), content: text, tool_call_id: z.string() }),
]);
type GivenMessage = z.infer<typeof messageSchema>;

export const toolSchema = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.json()).nullish(),
    strict: z.boolean().nullish(),
  }),
});

export function toolOf({ function: { name, description, parameters } }: z.infer<typeof toolSchema>): ToolSpec {
  const none: JsonObject = { type: "object", properties: {} };
  return { name, description: description ?? "", parameters: (parameters as JsonObject | null | undefined) ?? none };
}

/** A tool result gets the name of the tool that its call named; a result of no call is refused. */
export function messagesOf(given: readonly GivenMessage[]): Message[] {
  const names = new Map<string, string>();
  return given.map((message, index): Message => {
    const where = `messages.${index}`;
    const content = contentOf(message.content, where);
    if (message.role === "tool") {
      const name = names.get(message.tool_call_id);
      if (name === undefined)
        throw wrongField(`${where}.tool_call_id`, `expected the id of an earlier tool call, got ${message.tool_call_id}`);
      return { role: "tool", content, toolCallId: message.tool_call_id, name };
    }
    if (message.role !== "assistant") return { role: message.role === "developer" ? "system" : message.role, content };
    const toolCalls = (message.tool_calls ?? []).map((one, i) => toolCallOf(one, `${where}.tool_calls.${i}`));
    for (const { id, name } of toolCalls) names.set(id, name);
    const reasoning = message.reasoning_content ?? "";
    return {
      role: "assistant",
      content,
      ...(toolCalls.length === 0 ? {} : { toolCalls }),
      ...(reasoning === "" ? {} : { reasoning }),
    };
  });
}

function contentOf(content: GivenMessage["content"], where: string): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  return content
    .map((part, i) => {
      if (part.type === "text" && part.text !== undefined) return part.text;
      throw wrongField(`${where}.content.${i}`, `expected a part of type text, got ${part.type}; this model reads text alone`);
    })
    .join("");
}

function toolCallOf({ id, function: { name, arguments: json } }: z.infer<typeof call>, where: string): ToolCall {
  try {
    const value = json.trim() === "" ? {} : parseJsonStrict(json);
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new TypeError("it is no JSON object");
    return { id, name, arguments: value as JsonObject };
  } catch (cause) {
    throw wrongField(`${where}.function.arguments`, `expected a JSON object as text: ${messageOf(cause)}`);
  }
}

/** An assistant's message as a client gets it; `content` is null where there are calls alone. */
export function toOpenAi({ content, toolCalls, reasoning }: Message): Readonly<Record<string, unknown>> {
  return {
    role: "assistant",
    content: content === "" && toolCalls !== undefined ? null : content,
    refusal: null,
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls.map(callToOpenAi) }),
  };
}

export function callToOpenAi({ id, name, arguments: args }: ToolCall): {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
} {
  return { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
}
