/** Hermes and Qwen: `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`, any number of them, after the text. */
import { TokenizerError, expected } from "../../../errors.ts";
import { parser, textBeside, type CallText, type Dialect, type Reading } from "./dialect.ts";
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
  parse: parser(read),
};

function read(text: string): Reading {
  const calls: CallText[] = [];
  let content = "";
  let at = 0;
  for (;;) {
    const open = text.indexOf(OPEN, at);
    const between = text.slice(at, open < 0 ? undefined : open);
    if (between.includes(CLOSE)) return { malformed: `${CLOSE} without ${OPEN}` };
    content += textBeside(between, { afterCall: calls.length > 0, beforeCall: open >= 0 });
    if (open < 0) return { content, calls };
    const found = readCall(text, open + OPEN.length, ["arguments"]);
    if ("malformed" in found) return found;
    if (!text.startsWith(CLOSE, found.end)) return { malformed: `the call of ${found.call.name} is not closed by ${CLOSE}` };
    calls.push(found.call);
    at = found.end + CLOSE.length;
  }
}
