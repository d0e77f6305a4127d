/** What a person, or a script, says in the place of the policy. */
import { ConfigError, expected, messageOf } from "../../../errors.ts";
import type { JsonObject, Message } from "../../../types.ts";

/** How a call is said: `/call look_up {"item": "figs"}`. */
export const HELP = 'say an answer; /call <tool> <JSON> calls a tool; \\ at the end of a line goes on; Ctrl-D or /quit stops';

/** One entry as an assistant message. Throws a ConfigError that says what is wrong with a call. */
export function messageFrom(text: string, turn: number): Message {
  const call = /^\/call\s+(\S+)\s*([^]*)$/.exec(text.trim());
  if (call === null) {
    if (text.startsWith("/call")) throw new ConfigError(expected("/call", "a tool and its arguments as JSON", text, HELP));
    return { role: "assistant", content: text };
  }
  const [, name, given] = call;
  let args: unknown;
  try {
    args = JSON.parse(given!.trim() === "" ? "{}" : given!);
  } catch (cause) {
    throw new ConfigError(expected(`/call ${name!}`, "arguments as a JSON object", messageOf(cause)), { cause });
  }
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    throw new ConfigError(expected(`/call ${name!}`, "arguments as a JSON object", given!));
  }
  return { role: "assistant", content: "", toolCalls: [{ id: `call-${turn + 1}`, name: name!, arguments: args as JsonObject }] };
}

/** Entries of lines: a line that ends with a backslash goes on in the next. */
export async function* entries(lines: AsyncIterable<string>): AsyncGenerator<string> {
  const parts: string[] = [];
  for await (const line of lines) {
    const more = line.endsWith("\\");
    parts.push(more ? line.slice(0, -1) : line);
    if (!more) yield parts.splice(0).join("\n");
  }
  if (parts.length > 0) yield parts.join("\n");
}
