/**
 * Qwen3-Coder: `<tool_call>\n<function=name>\n<parameter=key>\nvalue\n</parameter>\n</function>\n</tool_call>`.
 * Values are bare text, so the tool's schema decides whether `5` is a number or a string.
 */
import { TokenizerError, expected } from "../../../errors.ts";
import { FORBIDDEN_KEYS, dumpJson, parseJsonStrict } from "../../../json.ts";
import type { Json, ToolSpec } from "../../../types.ts";
import { isObject, parser, settledBefore, taggedCalls } from "./dialect.ts";
import type { CallText, Dialect, FoundCall, ParseOptions } from "./dialect.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const FUNCTION = /\s*<function=([^<>\n]{1,256})>/y;
const PARAMETER = /\s*<parameter=([^<>\n]{1,256})>/y;
const PARAMETER_CLOSE = "</parameter>";
const FUNCTION_CLOSE = /\s*<\/function>\s*<\/tool_call>/y;
const MARKS = [OPEN, CLOSE, "<function=", "</function>"];

export const qwenXml: Dialect = {
  name: "qwen-xml",
  render(calls, content) {
    if (MARKS.some((mark) => content.includes(mark))) {
      throw new TokenizerError(expected("qwen-xml dialect", `content without ${OPEN}`, "one", "put the call into toolCalls"));
    }
    return [...(content === "" ? [] : [content]), ...calls.map(callText)].join("\n");
  },
  settled: (text) => settledBefore(text, MARKS),
  parse: parser(taggedCalls({ open: OPEN, marks: MARKS, readOne: readFunction })),
};

function callText(call: CallText): string {
  const parameters = Object.entries(call.arguments).map(([key, value]) => {
    const text = typeof value === "string" ? value : dumpJson(value);
    if (text.includes(PARAMETER_CLOSE)) {
      throw new TokenizerError(expected("qwen-xml dialect", `a value without ${PARAMETER_CLOSE}`, `one in ${key}`, "use a JSON dialect"));
    }
    return `<parameter=${key}>\n${text}\n${PARAMETER_CLOSE}\n`;
  });
  return `${OPEN}\n<function=${call.name}>\n${parameters.join("")}</function>\n${CLOSE}`;
}

function readFunction(text: string, start: number, options: ParseOptions): FoundCall {
  const head = matchAt(FUNCTION, text, start);
  if (head === null) return { malformed: `${OPEN} is not followed by <function=name>` };
  const name = head[1]!;
  const tool = options.tools?.find((candidate) => candidate.name === name);
  const args: Record<string, Json> = {};
  let at = start + head[0].length;
  for (;;) {
    const parameter = matchAt(PARAMETER, text, at);
    if (parameter === null) break;
    const key = parameter[1]!;
    const from = at + parameter[0].length;
    const to = text.indexOf(PARAMETER_CLOSE, from);
    if (to < 0) return { malformed: `the parameter ${key} of ${name} is not closed by ${PARAMETER_CLOSE}` };
    if (FORBIDDEN_KEYS.has(key)) return { malformed: `the parameter ${key} of ${name} is not allowed` };
    if (Object.hasOwn(args, key)) return { malformed: `the parameter ${key} of ${name} is there twice` };
    args[key] = typed(text.slice(from, to).replace(/^\n/, "").replace(/\n$/, ""), tool, key);
    at = to + PARAMETER_CLOSE.length;
  }
  const tail = matchAt(FUNCTION_CLOSE, text, at);
  if (tail === null) return { malformed: `the call of ${name} is not closed by </function> and ${CLOSE}` };
  return { call: { name, arguments: args }, end: at + tail[0].length };
}

/** The value as the schema types it; without a schema, JSON that is no string is read as JSON. */
function typed(text: string, tool: ToolSpec | undefined, key: string): Json {
  const properties = tool?.parameters.properties;
  const schema = isObject(properties) ? properties[key] : undefined;
  const type = isObject(schema) ? schema.type : undefined;
  if (type === "string") return text;
  const python: Readonly<Record<string, Json>> = { True: true, False: false, None: null };
  if (type !== undefined && Object.hasOwn(python, text)) return python[text]!;
  try {
    const value = parseJsonStrict(text);
    return typeof value === "string" ? text : value;
  } catch {
    return text;
  }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
