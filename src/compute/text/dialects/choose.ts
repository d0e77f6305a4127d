/** Which dialect a chat template writes, found by letting it write a call; and the start-up check that the parser reads it. */
import { TokenizerError, expected } from "../../../errors.ts";
import { dumpJson } from "../../../json.ts";
import type { Message, ToolSpec } from "../../../types.ts";
import type { ChatTemplate } from "../chat-template.ts";
import type { CallText, Dialect } from "./dialect.ts";
import { hermes } from "./hermes.ts";
import { llama3Json } from "./llama3-json.ts";
import { qwenXml } from "./qwen-xml.ts";

export const DIALECTS: readonly Dialect[] = [hermes, qwenXml, llama3Json];

const TOOL: ToolSpec = {
  name: "sample_tool",
  description: "A sample",
  parameters: { type: "object", properties: { text: { type: "string" }, count: { type: "integer" } }, required: ["text"] },
};
const CALL: CallText = { name: TOOL.name, arguments: { text: 'two "words"', count: 3 } };
const QUESTION: Message = { role: "user", content: "Sample question" };

/**
 * The dialect in which `template` writes a sample call. Undefined if it writes no call at all (a template without tool support).
 * Throws `TokenizerError` if it writes calls that no dialect reads.
 */
export function chooseDialect(template: ChatTemplate): Dialect | undefined {
  const text = sampleTurn(template);
  if (text === undefined) return undefined;
  const dialect = DIALECTS.find((candidate) => problem(candidate, text) === undefined);
  if (dialect !== undefined) return dialect;
  const names = DIALECTS.map(({ name }) => name).join(", ");
  const want = `tool calls in one of the dialects ${names}`;
  throw new TokenizerError(expected(`chat template of ${template.name}`, want, JSON.stringify(text)));
}

/** Throws `TokenizerError`, naming both, if `dialect` does not read what `template` writes. A template that writes no calls takes any. */
export function checkDialect(template: ChatTemplate, dialect: Dialect): void {
  const text = sampleTurn(template);
  const found = text === undefined ? undefined : problem(dialect, text);
  if (text === undefined || found === undefined) return;
  throw new TokenizerError(
    expected(
      `chat template of ${template.name}`,
      `tool calls that the ${dialect.name} dialect reads`,
      `${JSON.stringify(text)} (${found})`,
      "leave the dialect out to have it chosen by the template",
    ),
  );
}

/** What the template writes for the turn with the sample call, without what it writes around every turn. */
function sampleTurn(template: ChatTemplate): string | undefined {
  const call = { id: "call_0000", ...CALL };
  const turn = renderTurn(template, { role: "assistant", content: "", toolCalls: [call] });
  return turn?.includes(TOOL.name) === true ? turn : undefined;
}

function renderTurn(template: ChatTemplate, message: Message): string | undefined {
  const options = { tools: [TOOL], addGenerationPrompt: false };
  const render = (messages: readonly Message[], addGenerationPrompt = false): string | undefined => {
    try {
      return template.renderChat(messages, { ...options, addGenerationPrompt });
    } catch {
      return undefined;
    }
  };
  const [prompt, full] = [render([QUESTION], true), render([QUESTION, message])];
  const plain = render([QUESTION, { role: "assistant", content: "Sample answer" }]);
  if (prompt === undefined || full === undefined || plain === undefined) return undefined;
  let start = 0;
  while (start < prompt.length && prompt[start] === full[start]) start++;
  const after = plain.slice(plain.lastIndexOf("Sample answer") + "Sample answer".length);
  return full.slice(start, full.endsWith(after) ? full.length - after.length : undefined);
}

function problem(dialect: Dialect, text: string): string | undefined {
  const { calls, malformed } = dialect.parse(text, { tools: [TOOL] });
  if (malformed !== null) return malformed;
  if (calls.length !== 1) return `${calls.length} calls found`;
  return dumpJson({ ...calls[0]! }) === dumpJson({ ...CALL }) ? undefined : `read as ${dumpJson({ ...calls[0]! })}`;
}
