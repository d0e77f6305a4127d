/**
 * Calls of tools against the right calls, by structure: names, arguments with alternatives each, order or not. The answer is the calls
 * as JSON text: one call, a list, or what a <tool_call> block holds.
 */
import { RewardError, expected, messageOf, scored } from "../../../errors.ts";
import { parseJsonPrefix } from "../../../json.ts";
import type { Json, JsonObject, Message } from "../../../types.ts";
import { sameJson } from "./json-schema.ts";
import { shown, unscorable, verifierOf, type Verifier } from "./verifier.ts";

export interface ToolCallOptions {
  /** "strict" (default): the calls in their order; "any": in any order. */
  readonly order?: "strict" | "any";
  /** "all" (default): 1 or 0; "fraction": the share of right calls among the right and the stated ones (F1). */
  readonly credit?: "all" | "fraction";
}

interface Call {
  readonly name: string;
  readonly arguments: JsonObject;
}

const MAX_CALLS = 64;

/**
 * Gold: a call or a list of calls { name, arguments }. An argument { "anyOf": [...] } has alternatives, one of which may be
 * { "absent": true } for an argument that may be left out; a text is compared with case and spaces kept. A gold of [] means: no call.
 */
export function toolCall({ order = "strict", credit = "all" }: ToolCallOptions = {}): Verifier {
  if (order !== "strict" && order !== "any")
    throw new RewardError(expected("tool-call verifier: order", '"strict" or "any"', String(order)));
  if (credit !== "all" && credit !== "fraction") {
    throw new RewardError(expected("tool-call verifier: credit", '"all" or "fraction"', String(credit)));
  }
  return verifierOf("tool-call", ({ answer, gold }) => {
    const wanted = callsOf(gold);
    if (wanted === null) return unscorable("the gold is no list of calls { name, arguments }");
    const stated = readCalls(answer);
    if (typeof stated === "string") return scored(0, stated);
    const matched = order === "strict" ? inOrder(wanted, stated) : anyOrder(wanted, stated);
    const right = matched === wanted.length && stated.length === wanted.length;
    const share = wanted.length + stated.length === 0 ? 1 : (2 * matched) / (wanted.length + stated.length);
    const why = right
      ? "every call is right"
      : `${matched} of ${wanted.length} calls are right, ${stated.length} were made${firstFault(wanted, stated)}`;
    return scored(credit === "all" ? (right ? 1 : 0) : share, why, { calls: share });
  });
}

/** The calls of the assistant's messages as the text that `toolCall` reads, for `verifierReward({ answer })`. */
export function callsAsText(messages: readonly Message[]): string {
  const calls = messages.flatMap((message) => (message.role === "assistant" ? (message.toolCalls ?? []) : []));
  return JSON.stringify(calls.map(({ name, arguments: given }) => ({ name, arguments: given })));
}

function callsOf(value: Json): readonly Call[] | null {
  const all = Array.isArray(value) ? (value as readonly Json[]) : [value];
  if (all.length > MAX_CALLS) return null;
  const calls: Call[] = [];
  for (const each of all) {
    const call = callOf(each);
    if (call === null) return null;
    calls.push(call);
  }
  return calls;
}

/** { name, arguments }, { name, parameters } or OpenAI's { function: { name, arguments: "..." } }. */
function callOf(value: Json): Call | null {
  if (!isObject(value)) return null;
  const inner = isObject(value["function"] ?? null) ? (value["function"] as JsonObject) : value;
  const name = inner["name"];
  const given = inner["arguments"] ?? inner["parameters"] ?? {};
  if (typeof name !== "string" || name === "") return null;
  if (typeof given !== "string") return isObject(given) ? { name, arguments: given } : null;
  try {
    const { value: parsed, end } = parseJsonPrefix(given, 0);
    return end === given.length && isObject(parsed) ? { name, arguments: parsed } : null;
  } catch {
    return null;
  }
}

function isObject(value: Json): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function readCalls(answer: string): readonly Call[] | string {
  if (answer.length > 1_000_000) return "the answer has more than 1000000 characters";
  if (answer.trim() === "") return "the answer is empty; no call is written []";
  const blocks = answer.includes("<tool_call>")
    ? answer
        .split("<tool_call>")
        .slice(1)
        .map((block) => block.split("</tool_call>")[0]!)
    : [answer];
  const calls: Call[] = [];
  for (const block of blocks) {
    try {
      const text = block.replace(/^\s*```(?:json)?\s*|\s*```\s*$/g, "").trim();
      const { value, end } = parseJsonPrefix(text, 0);
      const read = end === text.length ? callsOf(value) : null;
      if (read === null) return `"${shown(block)}" is no call { name, arguments } and no list of calls`;
      calls.push(...read);
    } catch (cause) {
      return `the answer is no JSON: ${shown(messageOf(cause), 120)}`;
    }
  }
  return calls.length > MAX_CALLS ? `more than ${MAX_CALLS} calls` : calls;
}

/** The longest common subsequence: how many right calls stand in the right order. */
function inOrder(wanted: readonly Call[], stated: readonly Call[]): number {
  let row = new Array<number>(stated.length + 1).fill(0);
  for (const call of wanted) {
    const next = [0];
    for (const [j, given] of stated.entries()) next.push(matches(call, given) ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!));
    row = next;
  }
  return row.at(-1)!;
}

/** A largest pairing, by augmenting paths: alternatives may let one stated call stand for several right ones. */
function anyOrder(wanted: readonly Call[], stated: readonly Call[]): number {
  const taken = new Map<number, number>();
  const place = (want: number, seen: Set<number>): boolean => {
    for (const [j, given] of stated.entries()) {
      if (seen.has(j) || !matches(wanted[want]!, given)) continue;
      seen.add(j);
      const holder = taken.get(j);
      if (holder === undefined || place(holder, seen)) {
        taken.set(j, want);
        return true;
      }
    }
    return false;
  };
  return wanted.filter((_, want) => place(want, new Set())).length;
}

function matches(wanted: Call, given: Call): boolean {
  return argumentFault(wanted, given) === null;
}

function argumentFault(wanted: Call, given: Call): string | null {
  if (wanted.name !== given.name) return `the tool ${wanted.name}, not ${shown(given.name, 40)}`;
  for (const key of Object.keys(given.arguments)) {
    if (!Object.hasOwn(wanted.arguments, key)) return `${wanted.name}: no argument "${shown(key, 40)}"`;
  }
  for (const [key, value] of Object.entries(wanted.arguments)) {
    const stated = Object.hasOwn(given.arguments, key) ? given.arguments[key] : undefined;
    if (!alternativesOf(value).some((each) => (isAbsent(each) ? stated === undefined : stated !== undefined && sameJson(each, stated)))) {
      return `${wanted.name}: another value of "${shown(key, 40)}"`;
    }
  }
  return null;
}

function alternativesOf(value: Json): readonly Json[] {
  const listed = isObject(value) && Object.keys(value).length === 1 ? value["anyOf"] : undefined;
  return Array.isArray(listed) ? (listed as readonly Json[]) : [value];
}

function isAbsent(value: Json): boolean {
  return isObject(value) && Object.keys(value).length === 1 && value["absent"] === true;
}

function firstFault(wanted: readonly Call[], stated: readonly Call[]): string {
  for (const [i, call] of wanted.entries()) {
    const given = stated[i];
    const fault = given === undefined ? `${call.name} is missing` : argumentFault(call, given);
    if (fault !== null) return `; call ${i + 1}: expected ${fault}`;
  }
  return "";
}
