/** Hermes and Qwen: `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`, any number of them, after the text. */
import { TokenizerError, expected } from "../../../errors.ts";
import { parser, settledBefore, taggedCalls, type Dialect, type FoundCall } from "./dialect.ts";
import { dumpCall, readCall } from "./json-call.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export const hermes: Dialect = {
  name: "hermes",
  render(calls, content) {
    if (content.includes(OPEN) || content.includes(CLOSE)) {
      throw new TokenizerError(expected("hermes dialect", `content without ${OPEN}`, "one", "put the call into toolCalls"));
    }
    const texts = calls.map((call) => `${OPEN}\n${dumpCall(call, "arguments")}\n${CLOSE}`);
    return [...(content === "" ? [] : [content]), ...texts].join("\n");
  },
  settled: (text) => settledBefore(text, [OPEN, CLOSE]),
  parse: parser(taggedCalls({ open: OPEN, marks: [CLOSE], readOne })),
};

function readOne(text: string, start: number): FoundCall {
  const found = readCall(text, start, ["arguments"]);
  if ("malformed" in found) return found;
  if (!text.startsWith(CLOSE, found.end)) return { malformed: `the call of ${found.call.name} is not closed by ${CLOSE}` };
  return { call: found.call, end: found.end + CLOSE.length };
}
