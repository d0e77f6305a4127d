/**
 * The same dialogues about other things: the words that name people, products and rooms are exchanged, in the question, the calls and
 * the answers alike. There are few such words in the train split, and a small model that always meets the same ones learns them by
 * heart; meeting ever new ones, it learns to copy what stands in the question. Words of the test split are never used.
 */
import type { Draw } from "../../src/env/desk/draw.ts";
import { WORDS } from "../../src/env/desk/words.ts";
import type { Json, JsonObject, Message, ToolCall } from "../../src/types.ts";

const lists = Object.keys(WORDS.train) as (keyof typeof WORDS.train)[];
const nameWords: readonly string[] = [...new Set(lists.flatMap((list) => WORDS.train[list]))].sort((a, b) => b.length - a.length);
const everyName = new RegExp(`\\b(${lists.flatMap((list) => [...WORDS.train[list], ...WORDS.test[list]]).join("|")})\\b`, "g");
const testWords = new Set(lists.flatMap((list) => WORDS.test[list]).map((word) => word.toLowerCase()));
const pattern = new RegExp(`\\b(${nameWords.join("|")})\\b`, "g");

/** Exchanges every name word of a dialogue for another: one of `words`, or one made up of syllables. */
export function renamed(messages: readonly Message[], random: Draw, words: readonly string[]): Message[] {
  const chosen = new Map<string, string>();
  const exchange = (text: string): string =>
    text.replace(pattern, (word) => {
      const known = chosen.get(word);
      if (known !== undefined) return known;
      const fresh = cased(random.range(0, 1) === 0 ? random.pick(words) : madeUp(random), word);
      chosen.set(word, fresh);
      return fresh;
    });
  const exchangeIn = (call: ToolCall): ToolCall => ({ ...call, arguments: inside(call.arguments, exchange) as JsonObject });
  return messages.map((message) => ({
    ...message,
    content: exchange(message.content),
    ...(message.toolCalls === undefined ? {} : { toolCalls: message.toolCalls.map(exchangeIn) }),
  }));
}

/** Text without the words of either split that name things, for training a tokenizer that cuts all of them into pieces alike. */
export function withoutNames(text: string): string {
  return text.replace(everyName, "");
}

/** Words of a vocabulary that may stand for names: letters only, none of the test split. */
export function nameableWords(tokens: readonly string[]): string[] {
  const words = tokens.map((token) => token.trim()).filter((token) => /^[A-Za-z]{3,}$/.test(token) && !testWords.has(token.toLowerCase()));
  return [...new Set(words)].sort();
}

function inside(value: Json, exchange: (text: string) => string): Json {
  if (typeof value === "string") return exchange(value);
  if (Array.isArray(value)) return value.map((entry: Json) => inside(entry, exchange));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, inside(entry, exchange)]));
}

const capital = (word: string): string => word[0]!.toUpperCase() + word.slice(1).toLowerCase();

/** As the word that it stands for: with a capital or without. */
function cased(fresh: string, word: string): string {
  return word[0] === word[0]!.toUpperCase() ? capital(fresh) : fresh.toLowerCase();
}

function madeUp(random: Draw): string {
  const letters = (text: string): string => random.pick(text.split(""));
  const syllable = (): string => letters("bcdfghklmnprstvwz") + letters("aeiou") + (random.range(0, 1) === 0 ? letters("lmnrst") : "");
  return Array.from({ length: random.range(1, 2) }, syllable).join("") + letters("aeioukmnrst");
}
