/** Refuses sampling requests that cannot be met, before they join a batch. */
import { PolicyError, expected } from "../../../errors.ts";
import type { SampleRequest } from "../../../types.ts";
import type { LocalModel } from "./model.ts";

export function checkRequest(request: SampleRequest, { model, hasDecode }: { model: LocalModel; hasDecode: boolean }): void {
  const { prompt, count, keys, maxTokens, temperature, adapter = "policy", stopStrings = [], topLogprobs = 0 } = request;
  const { vocabulary, context } = model.architecture;
  const refuse = (...parts: Parameters<typeof expected>): never => {
    throw new PolicyError(expected(...parts));
  };
  model.variant(adapter);
  if (prompt.length === 0) refuse("sample prompt", "at least one token", "0");
  const wrong = prompt.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabulary);
  if (wrong >= 0) refuse(`sample prompt position ${wrong}`, `a token id below ${vocabulary}`, String(prompt[wrong]));
  if (prompt.length >= context)
    refuse("sample prompt", `fewer than ${context} tokens (the model's context)`, String(prompt.length), "shorten the prompt");
  if (!Number.isInteger(count) || count < 1) refuse("sample count", "a positive integer", String(count));
  if (keys.length !== count) refuse("sample keys", `${count} keys, one for each sample`, String(keys.length));
  if (!(maxTokens >= 1)) refuse("sample maxTokens", "at least 1", String(maxTokens));
  if (!(temperature >= 0) || !Number.isFinite(temperature)) refuse("sample temperature", "0 (greedy) or more", String(temperature));
  if (!Number.isInteger(topLogprobs) || topLogprobs < 0) refuse("sample topLogprobs", "0 or a positive integer", String(topLogprobs));
  if (stopStrings.length > 0 && !hasDecode)
    refuse("sample stopStrings", "none", JSON.stringify(stopStrings), "the engine was opened without a tokenizer");
  if (stopStrings.includes("")) refuse("sample stopStrings", "strings that are not empty", '""');
}
