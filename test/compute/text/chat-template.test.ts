import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openChatTemplate } from "../../../src/compute/text/chat-template.ts";
import type { JsonObject, Message, ToolSpec } from "../../../src/types.ts";

const folder = new URL("../../golden/chat/", import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, folder), "utf8");

interface Conversation {
  readonly name: string;
  readonly messages: readonly Message[];
  readonly tools?: boolean;
  readonly addGenerationPrompt?: boolean;
}
const source = JSON.parse(read("conversations.json")) as {
  readonly variables: JsonObject;
  readonly tools: readonly ToolSpec[];
  readonly conversations: readonly Conversation[];
};

for (const family of ["llama-3.1", "llama-3.2", "smollm2", "qwen2.5", "qwen3", "qwen-xml", "chatml"]) {
  const golden = JSON.parse(read(`${family}.json`)) as Record<string, string | { readonly error: string }>;
  const template = openChatTemplate({ ...source.variables, chat_template: read(`${family}.jinja`) }, family);

  test.each(source.conversations)(`${family} renders $name as transformers does`, ({ name, messages, ...conversation }) => {
    const { tools = false, addGenerationPrompt = true } = conversation;
    const render = (): string => template.renderChat(messages, { addGenerationPrompt, ...(tools ? { tools: source.tools } : {}) });
    const right = golden[name]!;
    if (typeof right === "string") expect(render()).toBe(right);
    else expect(render).toThrow(`chat template of ${family}: ${right.error}`);
  });
}

test("arguments are printed as an object, not as an escaped string", () => {
  const template = openChatTemplate({ chat_template: read("qwen2.5.jinja") }, "qwen2.5");
  const text = template.renderChat(
    [
      { role: "user", content: "q" },
      { role: "assistant", content: "", toolCalls: [{ id: "1", name: "weather", arguments: { city: "SF" } }] },
    ],
    { addGenerationPrompt: false },
  );
  expect(text).toContain('{"name": "weather", "arguments": {"city": "SF"}}');
});

test("the date of Llama's templates does not depend on the day, and can be set", () => {
  const template = openChatTemplate({ chat_template: read("llama-3.2.jinja"), bos_token: { content: "<B>" } }, "llama");
  const messages: readonly Message[] = [{ role: "user", content: "q" }];
  expect(template.renderChat(messages, { addGenerationPrompt: true })).toMatch(/^<B>.*Today Date: 26 Jul 2024\n/s);
  const later = template.renderChat(messages, { addGenerationPrompt: true, variables: { date_string: "1 Jan 2030" } });
  expect(later).toContain("Today Date: 1 Jan 2030\n");
});

test("what the engine knows otherwise prints as Python prints it", () => {
  const print = (expression: string, variables: JsonObject): string =>
    openChatTemplate({ chat_template: `{% if not add_generation_prompt %}|{% endif %}${expression}` }, "x", variables).renderChat([], {
      addGenerationPrompt: true,
    });
  const scalars = { a: true, b: null, c: 1e-5, d: "x" };
  expect(print("{{ a | string }} {{ b | string }} {{ c | string }} {{ d | string }}", scalars)).toBe("True None 1e-05 x");
  expect(print("{{ a.strip('x') }}|{{ a.lstrip('xy') }}|{{ a.rstrip() }}", { a: "xyax \u001c" })).toBe("yax \u001c|ax \u001c|xyax");
  expect(print("[{{ a | trim }}{{ nothing | trim }}]", { a: "\ufeff b \u0085" })).toBe("[\ufeff b]");
  const nested = { a: { k: [1] }, b: { x: 1e-7 } };
  expect(print("{{ a | tojson(indent=2) }}{{ b | tojson }}", nested)).toBe('{\n  "k": [\n    1\n  ]\n}{"x": 1e-07}');
  expect(print("{% for x in nothing %}{{ x }}{% endfor %}{% for x in a if x > 1 %}{{ x }}{% endfor %}", { a: [1, 2, 3] })).toBe("23");
  expect(print("{% for i in range(2, 8, 3) %}{{ i }}{% endfor %} {{ strftime_now('%d %B %Y') }}", {})).toBe("25 26 July 2024");
});

test("a list of named templates gives the default one", () => {
  const template = "{{ messages[0].content }}{% if add_generation_prompt %}>{% endif %}";
  const config = { chat_template: [{ name: "tool_use", template: "T" }, { name: "default", template }] };
  expect(openChatTemplate(config, "x").renderChat([{ role: "user", content: "hi" }], { addGenerationPrompt: true })).toBe("hi>");
});

test("a template without a generation prompt is refused by name", () => {
  expect(() => openChatTemplate({ chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}" }, "org/model")).toThrow(
    /^chat template of org\/model: expected a generation prompt .* got the same text with and without it; add/,
  );
});

test("a tokenizer without a chat template is refused with what to do", () => {
  expect(() => openChatTemplate({}, "org/base")).toThrow(/^tokenizer of org\/base: expected a chat template, got none; use the -Inst/);
  expect(() => openChatTemplate({ chat_template: "{% if %}" }, "org/broken")).toThrow(/^chat template of org\/broken: cannot be read/);
});
