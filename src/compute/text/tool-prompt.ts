/**
 * Tools for a chat template that knows none: their schemas go into the system message, calls into the assistant's text in a
 * dialect, and results into a user message. The wording is that of Qwen's templates, which models of this size have seen most.
 */
import { dumpJson } from "../../json.ts";
import type { Message, ToolSpec } from "../../types.ts";
import type { Dialect } from "./dialects/dialect.ts";
import { joinReasoning } from "./dialects/dialect.ts";

/** The same conversation in system, user and assistant messages without tool calls. */
export function withoutToolRoles(messages: readonly Message[], tools: readonly ToolSpec[], dialect: Dialect): readonly Message[] {
  const out: Message[] = [];
  let results: string[] = [];
  const flush = (): void => {
    if (results.length > 0) out.push({ role: "user", content: results.join("\n") });
    results = [];
  };
  for (const message of messages) {
    if (message.role === "tool") {
      results.push(`<tool_response>\n${message.content}\n</tool_response>`);
      continue;
    }
    flush();
    out.push(message.toolCalls === undefined ? message : textOnly(message, dialect));
  }
  flush();
  return tools.length === 0 ? out : withSystem(out, toolText(tools, dialect));
}

/** Reasoning written into the content, for a template that does not print `reasoning_content`. */
export function reasoningInContent(message: Message): Message {
  const { reasoning, ...rest } = message;
  return reasoning === undefined ? message : { ...rest, content: joinReasoning(reasoning, message.content) };
}

function textOnly(message: Message, dialect: Dialect): Message {
  const { toolCalls, ...rest } = message;
  return { ...rest, content: dialect.render(toolCalls ?? [], message.content) };
}

function withSystem(messages: readonly Message[], text: string): readonly Message[] {
  const [first, ...others] = messages;
  if (first?.role !== "system") return [{ role: "system", content: text }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${text}` }, ...others];
}

function toolText(tools: readonly ToolSpec[], dialect: Dialect): string {
  const specs = tools.map(({ name, description, parameters }) =>
    dumpJson({ type: "function", function: { name, description, parameters } }),
  );
  const example = dialect.render([{ name: "function_name", arguments: { argument: "value" } }], "");
  return (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
    `You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n${specs.join("\n")}\n</tools>\n\n` +
    `For each function call, answer in this form:\n${example}`
  );
}
