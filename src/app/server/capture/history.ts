/** Names conversations by what they say, so that a history which a client sends back finds the turns that were sampled. */
import { createHash } from "node:crypto";
import type { Json, Message, ToolSpec } from "../../../types.ts";

/**
 * One key after each message. Two histories have the same key if roles, texts, and names and arguments of calls are the same. Call ids
 * and reasoning do not count: clients make ids of their own and leave reasoning out.
 */
export function historyKeys(tools: readonly ToolSpec[], messages: readonly Message[]): string[] {
  let key = digest(JSON.stringify(tools.map(({ name, description, parameters }) => [name, description, sorted(parameters)])));
  return messages.map(({ role, content, toolCalls = [] }) => {
    const calls = toolCalls.map(({ name, arguments: args }) => [name, sorted(args)]);
    return (key = digest(JSON.stringify([key, role, content, calls])));
  });
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64");

/** The same value with keys in one order. */
function sorted(value: Json): Json {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return (value as readonly Json[]).map(sorted);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}
