/** The chat templates of test/golden/chat, opened as the model families would be, over the tiny tokenizer. */
import { readFileSync } from "node:fs";
import { openChatTemplate, type ChatTemplate } from "../../src/compute/text/chat-template.ts";
import { openRenderer, type ChatRenderer } from "../../src/compute/text/renderer.ts";
import type { ToolSpec } from "../../src/types.ts";
import { tinyTokenizer } from "./tiny-tokenizer.ts";

export const FAMILIES = ["llama-3.1", "llama-3.2", "smollm2", "qwen2.5", "qwen3", "qwen-xml", "chatml"] as const;
export type Family = (typeof FAMILIES)[number];

export function templateOf(family: Family): ChatTemplate {
  const source = readFileSync(new URL(`../golden/chat/${family}.jinja`, import.meta.url), "utf8");
  return openChatTemplate({ chat_template: source, bos_token: "<|begin_of_text|>", eos_token: endOf(family) }, family);
}

export function rendererOf(family: Family): ChatRenderer {
  return openRenderer({ tokenizer: tinyTokenizer(endOf(family)), template: templateOf(family) });
}

export function endOf(family: Family): string {
  return family.startsWith("llama") ? "<|eot_id|>" : "<|im_end|>";
}

export const WEATHER: ToolSpec = {
  name: "get_weather",
  description: "Weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } }, required: ["city"] },
};
export const BASH: ToolSpec = {
  name: "bash",
  description: "Runs a command",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};
