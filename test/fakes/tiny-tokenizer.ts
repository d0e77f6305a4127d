/** A real byte-level tokenizer, trained in milliseconds on a few sentences, with ChatML and tool-call specials. */
import { trainBpe } from "../../src/compute/text/bpe-trainer.ts";
import { openTokenizer, type Tokenizer } from "../../src/compute/text/tokenizer.ts";
import type { JsonObject } from "../../src/types.ts";

export const TINY_SPECIALS = [
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<tool_call>",
  "</tool_call>",
  "<think>",
  "</think>",
  "<|begin_of_text|>",
  "<|start_header_id|>",
  "<|end_header_id|>",
  "<|eot_id|>",
  "<|python_tag|>",
];

const SENTENCES = [
  "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
  "You are a helpful assistant. You may call one or more functions to assist with the user query.",
  'For each function call, return a json object {"name": "add", "arguments": {"a": 1, "b": 2}} within the tags.',
  "user\nassistant\nsystem\ntool\nWhat is 12 + 30? The answer is 42. Thank you, that is right.",
  "Weather in Zürich and Genève: clear, 21 degrees; rain tomorrow. 東京 is warm.",
  "<tool_response>\nsunny\n</tool_response>\n# Tools\n\nYou are provided with function signatures.",
];

/** The tokenizer.json; `specials` are the first ids. */
export function tinyTokenizerJson(vocabSize = 512): JsonObject {
  return trainBpe(Array.from({ length: 4 }, () => SENTENCES).flat(), { vocabSize, specials: TINY_SPECIALS });
}

/** `chatTemplate` goes into the config that comes with the tokenizer. */
export function tinyTokenizer(eosToken = "<|im_end|>"): Tokenizer {
  return openTokenizer(tinyTokenizerJson(), { eos_token: eosToken, bos_token: "<|begin_of_text|>" });
}
