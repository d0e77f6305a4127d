/**
 * Llama 3.1 and later: `{"name": …, "parameters": {…}}`, bare or after `<|python_tag|>`; several are separated by `;`.
 * A bare call counts where a line begins with it.
 */
import { TokenizerError, expected } from "../../../errors.ts";
import { parser, settledBefore, type CallText, type Dialect, type Reading } from "./dialect.ts";
import { dumpCall, readCall } from "./json-call.ts";

const TAG = "<|python_tag|>";
const BARE = /^[ \t]*\{\s{0,8}"name"\s{0,8}:/m;
const BETWEEN = /[\s;]*(?:<\|python_tag\|>)?\s*/y;

export const llama3Json: Dialect = {
  name: "llama3-json",
  render(calls, content) {
    if (content.includes(TAG) || BARE.test(content)) {
      throw new TokenizerError(expected("llama3-json dialect", "content without a call", "one", "put the call into toolCalls"));
    }
    if (calls.length === 0) return content;
    return (content === "" ? "" : content + TAG) + calls.map((call) => dumpCall(call, "parameters")).join("; ");
  },
  settled: (text) => Math.min(settledBefore(text, [TAG]), ...lineBraces(text)),
  parse: parser(read),
};

/** Where a line begins with a brace or may yet; the line end before it is part of the call. */
function lineBraces(text: string): number[] {
  const line = /(?:^|\n)[ \t]*(?:\{|$)/.exec(text);
  return line === null ? [] : [line.index];
}

function read(text: string): Reading {
  const tag = text.indexOf(TAG);
  const bare = BARE.exec(text)?.index ?? -1;
  if (tag < 0 && bare < 0) return { content: text, calls: [] };
  const tagged = tag >= 0 && (bare < 0 || tag <= bare);
  const content = tagged ? text.slice(0, tag) : text.slice(0, bare).replace(/\n$/, "");
  const calls: CallText[] = [];
  let at = tagged ? tag + TAG.length : bare;
  while (at < text.length) {
    const found = readCall(text, at, ["parameters", "arguments"]);
    if ("malformed" in found) return found;
    calls.push(found.call);
    BETWEEN.lastIndex = found.end;
    at = found.end + (BETWEEN.exec(text)?.[0].length ?? 0);
  }
  return calls.length === 0 ? { malformed: `${TAG} without a call` } : { content, calls };
}
