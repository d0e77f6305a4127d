/** One call as a JSON object `{"name": …, "<key>": {…}}`, shared by the JSON dialects. */
import { dumpJson, parseJsonPrefix, parseJsonStrict } from "../../../json.ts";
import { messageOf } from "../../../errors.ts";
import type { JsonObject } from "../../../types.ts";
import { isObject, type CallText, type FoundCall } from "./dialect.ts";

/** As chat templates write it: the name between quotes, the arguments as Python's json.dumps. */
export function dumpCall(call: CallText, key: string): string {
  return `{"name": ${dumpJson(call.name)}, "${key}": ${dumpJson(call.arguments)}}`;
}

/** Reads the call at `start`; `keys` are the names under which arguments may stand. */
export function readCall(text: string, start: number, keys: readonly string[]): FoundCall {
  try {
    const { value, end } = parseJsonPrefix(text, start);
    if (!isObject(value)) return { malformed: "the call is not a JSON object" };
    const { name } = value;
    if (typeof name !== "string" || name === "") return { malformed: 'the call has no "name"' };
    const key = keys.find((candidate) => Object.hasOwn(value, candidate));
    const args = key === undefined ? undefined : argumentsOf(value, key);
    if (args === undefined) return { malformed: `the call of ${name} has no "${keys[0]}" that is a JSON object` };
    return { call: { name, arguments: args }, end };
  } catch (cause) {
    return { malformed: `the call is not JSON: ${messageOf(cause)}` };
  }
}

/** Some models and servers write the arguments as a string that holds JSON; inside there is one form, the object. */
function argumentsOf(value: JsonObject, key: string): JsonObject | undefined {
  const given = value[key];
  const parsed = typeof given === "string" ? parseJsonStrict(given) : given;
  return isObject(parsed) ? parsed : undefined;
}
