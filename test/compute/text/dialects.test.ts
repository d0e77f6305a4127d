import { expect, test } from "vitest";
import type { ChatTemplate } from "../../../src/compute/text/chat-template.ts";
import { DIALECTS, checkDialect, chooseDialect } from "../../../src/compute/text/dialects/choose.ts";
import { joinReasoning, type CallText } from "../../../src/compute/text/dialects/dialect.ts";
import { hermes } from "../../../src/compute/text/dialects/hermes.ts";
import { llama3Json } from "../../../src/compute/text/dialects/llama3-json.ts";
import { qwenXml } from "../../../src/compute/text/dialects/qwen-xml.ts";
import { openChatTemplate } from "../../../src/compute/text/chat-template.ts";
import type { JsonObject, ToolSpec } from "../../../src/types.ts";
import { BASH, templateOf } from "../../fakes/chat-families.ts";

const TOOL: ToolSpec = {
  name: "run",
  description: "Runs",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string" },
      other: { type: "string" },
      count: { type: "integer" },
      ratio: { type: "number" },
      flag: { type: "boolean" },
      nothing: { type: "null" },
      list: { type: "array" },
      nested: { type: "object" },
    },
  },
};

const call = (args: JsonObject, name = "run"): CallText => ({ name, arguments: args });

/** What every dialect must carry there and back. */
const CASES: readonly { readonly title: string; readonly calls: readonly CallText[]; readonly content: string }[] = [
  { title: "no arguments", calls: [call({})], content: "" },
  { title: "text before", calls: [call({ text: "a" })], content: "Let me look.\n" },
  { title: "no call", calls: [], content: "Just text, 2 < 3 and {\"a\": 1}.\n" },
  { title: "quotes and lines", calls: [call({ text: 'say "hi"\\n\n\tnow\n', other: "\n\nx\r\n" })], content: "" },
  { title: "tags of tools in a string", calls: [call({ text: "<tool_call>\n{</tool_call>" })], content: "" },
  { title: "unicode", calls: [call({ text: "Zürich 🎉 東京\u2028\u0000\ufeff" })], content: "Grüezi 👩‍👩‍👧" },
  { title: "numbers", calls: [call({ count: 9007199254740991, ratio: 0.1, text: "5" })], content: "" },
  { title: "an integer beyond 2^53, as its text", calls: [call({ text: "12345678901234567891" })], content: "" },
  { title: "string that looks like something else", calls: [call({ text: "true", other: "null" })], content: "" },
  { title: "nested", calls: [call({ nested: { a: [1, { b: null }], "key \"q\"": false }, list: [[], {}, "x", -1.5e-7] })], content: "" },
  { title: "booleans and null", calls: [call({ flag: true, nothing: null })], content: "" },
  { title: "several in order", calls: [call({ count: 1 }), call({ count: 10 }, "other"), call({ count: 100 })], content: "Three:" },
];

for (const dialect of DIALECTS) {
  test.each(CASES)(`${dialect.name} carries $title`, ({ calls, content }) => {
    const text = dialect.render(calls, content);
    expect(dialect.parse(text, { tools: [TOOL] })).toEqual({ content, calls, malformed: null });
    const thought = dialect.parse(joinReasoning("first\n\nthen <tool_call>", text), { tools: [TOOL] });
    expect(thought).toEqual({ content: content.replace(/^\n+/, ""), calls, malformed: null, reasoning: "first\n\nthen <tool_call>" });
  });

  test(`${dialect.name}: a turn cut anywhere after its opener is malformed, and never half run`, () => {
    const text = dialect.render([call({ text: "a}b", count: 1 })], "");
    const opened = dialect === llama3Json ? '{"name":'.length : "<tool_call>".length;
    for (let end = opened; end < text.length; end++) {
      const cut = text.slice(0, end);
      const { calls, malformed, content } = dialect.parse(cut);
      expect({ calls, content, malformed: typeof malformed }, cut).toEqual({ calls: [], content: cut, malformed: "string" });
    }
  });

  test(`${dialect.name}: one broken call among good ones runs none`, () => {
    const good = dialect.render([call({ count: 1 })], "");
    const broken = dialect === llama3Json ? '; {"name": 3}' : "\n<tool_call>\nhello\n</tool_call>";
    const parsed = dialect.parse(good + broken);
    expect(parsed.calls).toEqual([]);
    expect(parsed.malformed).not.toBeNull();
  });
}

test("hermes: what is wrong is said", () => {
  const parse = (inside: string) => hermes.parse(`<tool_call>\n${inside}\n</tool_call>`).malformed;
  expect(parse("[1]")).toBe("the call is not a JSON object");
  expect(parse('{"arguments": {}}')).toBe('the call has no "name"');
  expect(parse('{"name": "f"}')).toBe('the call of f has no "arguments" that is a JSON object');
  expect(parse('{"name": "f", "arguments": {"a": 1, "a": 2}}')).toMatch(/key "a" is there twice/);
  expect(parse('{"name": "f", "arguments": {"__proto__": {}}}')).toMatch(/"__proto__" is not allowed/);
  expect(hermes.parse('{"name": "f"}</tool_call>').malformed).toBe("</tool_call> without <tool_call>");
  expect(() => hermes.render([call({})], "<tool_call>")).toThrow(/^hermes dialect: expected content without <tool_call>/);
});

test("arguments that come as a JSON string become the object", () => {
  const text = '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"SF\\"}"}</tool_call>';
  expect(hermes.parse(text).calls).toEqual([{ name: "weather", arguments: { city: "SF" } }]);
});

test("a number that a double would change keeps its digits", () => {
  expect(hermes.parse('<tool_call>{"name": "f", "arguments": {"id": 12345678901234567891}}</tool_call>').calls[0]?.arguments).toEqual({
    id: "12345678901234567891",
  });
});

test("Qwen's XML form is read by its own dialect, and is malformed for another", () => {
  const text = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>";
  const calls = [call({ command: "ls" }, "bash")];
  expect(qwenXml.parse(text, { tools: [BASH] })).toEqual({ content: "", calls, malformed: null });
  expect(hermes.parse(text)).toMatchObject({ calls: [], malformed: expect.stringMatching(/^the call is not JSON/) as string });
  expect(qwenXml.parse("<function=bash>\n</function>").malformed).toBe("<function= without <tool_call>");
});

test("qwen-xml types bare values by the schema, and by their look without one", () => {
  const text = qwenXml.render([call({ text: "5", count: 5, flag: false })], "");
  expect(qwenXml.parse(text, { tools: [TOOL] }).calls[0]?.arguments).toEqual({ text: "5", count: 5, flag: false });
  expect(qwenXml.parse(text).calls[0]?.arguments).toEqual({ text: 5, count: 5, flag: false });
  expect(qwenXml.parse(text.replace("\nfalse\n", "\nFalse\n"), { tools: [TOOL] }).calls[0]?.arguments.flag).toBe(false);
  expect(() => qwenXml.render([call({ text: "</parameter>" })], "")).toThrow(/^qwen-xml dialect: expected a value without <\/parameter>/);
});

test("Llama's calls with and without the tag, and text that is no call", () => {
  const one = { calls: [call({ a: 1 }, "f")], malformed: null };
  expect(llama3Json.parse('{"name": "f", "parameters": {"a": 1}}')).toEqual({ content: "", ...one });
  expect(llama3Json.parse('<|python_tag|>{"name": "f", "parameters": {"a": 1}}')).toEqual({ content: "", ...one });
  expect(llama3Json.parse('I call it.\n{"name": "f", "parameters": {"a": 1}}\n')).toEqual({ content: "I call it.", ...one });
  expect(llama3Json.parse('{"answer": 42}')).toEqual({ content: '{"answer": 42}', calls: [], malformed: null });
  expect(llama3Json.parse("<|python_tag|>").malformed).toBe("<|python_tag|> without a call");
});

test("the template chooses its dialect", () => {
  const names = (["llama-3.1", "llama-3.2", "qwen2.5", "qwen3", "qwen-xml", "smollm2", "chatml"] as const).map((family) => [
    family,
    chooseDialect(templateOf(family))?.name,
  ]);
  expect(names).toEqual([
    ["llama-3.1", "llama3-json"],
    ["llama-3.2", "llama3-json"],
    ["qwen2.5", "hermes"],
    ["qwen3", "hermes"],
    ["qwen-xml", "qwen-xml"],
    ["smollm2", undefined],
    ["chatml", undefined],
  ]);
});

test("a dialect that does not read what the template writes is refused, naming both", () => {
  expect(() => checkDialect(templateOf("qwen-xml"), hermes)).toThrow(
    /^chat template of qwen-xml: expected tool calls that the hermes dialect reads, got "<tool_call>/,
  );
  checkDialect(templateOf("qwen2.5"), hermes);
  checkDialect(templateOf("smollm2"), llama3Json);
  const unknown: ChatTemplate = openChatTemplate(
    {
      chat_template:
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}CALL {{ c.function.name }}{% endfor %}" +
        "\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
    },
    "org/odd",
  );
  expect(() => chooseDialect(unknown)).toThrow(
    "chat template of org/odd: expected tool calls in one of the dialects hermes, qwen-xml, llama3-json, got \"CALL sample_tool\"",
  );
});
