/**
 * Context compaction: when a row has grown past a length, the next turn begins a new row with the prompt, a note on the turns that are
 * left out, and the last turns as they were. Earlier rows stay as they are, so every row is what the sampler saw.
 */
import type { Message } from "../../types.ts";

/** How left-out turns are told: by their number alone, one line each by a fixed rule, or in the policy's own words. */
export const compactionPolicies = ["none", "last-turns", "rule-summary", "model-summary"] as const;

export interface CompactionOptions {
  /** Default "none": a context that is full ends the episode. */
  readonly compaction?: (typeof compactionPolicies)[number];
  /** Tokens of a row beyond which the next turn begins a new one; 0 (default) is three quarters of the model's context. */
  readonly compactAt?: number;
  /** Last turns that are kept whole; default 4. */
  readonly keepTurns?: number;
}

/** One turn of the conversation with what was answered. */
export interface Exchange {
  readonly message: Message;
  readonly replies: readonly Message[];
}

/** Characters of a rule's summary, of what was done and of what was answered; the newest lines are kept. */
const most = { summary: 1200, done: 60, answered: 80 };

/** What the policy is asked; its answer is context of the next row and is not trained. */
export const SUMMARY_REQUEST = "Write down in a few lines what of the above matters for what is still to be done. No other text.";

/** The conversation of the next row. `written` is the policy's own summary. */
export function compacted(
  prompt: readonly Message[],
  exchanges: readonly Exchange[],
  { keepTurns, written }: { readonly keepTurns: number; readonly written?: string },
): Message[] {
  const kept = keepTurns === 0 ? [] : exchanges.slice(-keepTurns);
  const left = exchanges.slice(0, exchanges.length - kept.length);
  const last = kept.length > 0 ? [] : (exchanges.at(-1)?.replies ?? []);
  const note = [`[${left.length} earlier turns are left out]`, ...(written === undefined ? [] : [written])].join("\n");
  const told = left.length === 0 ? prompt : withNote(prompt, note);
  const turns = kept.flatMap(({ message, replies }) => [message, ...replies]);
  return last.length === 0 ? [...told, ...turns] : withNote(told, last.map(({ content }) => content).join("\n"));
}

/** One line a turn: what was done and what came of it; the newest lines, and no more characters than half of the row may have tokens. */
export function ruleSummary(exchanges: readonly Exchange[], { keepTurns, tokens }: { keepTurns: number; tokens: number }): string {
  const lines = exchanges.slice(0, exchanges.length - keepTurns).map(({ message, replies }, i) => {
    const calls = (message.toolCalls ?? []).map(({ name, arguments: args }) => `${name} ${JSON.stringify(args)}`);
    const done = clip([message.content, ...calls].filter((part) => part !== "").join(" "), most.done);
    return `${i + 1}. ${done} -> ${clip(replies.map(({ content }) => content).join(" "), most.answered)}`;
  });
  const limit = Math.min(most.summary, tokens / 2);
  let characters = 0;
  const from = lines.findLastIndex((line) => (characters += line.length + 1) > limit);
  return lines.slice(from + 1).join("\n");
}

/** A note stands at the end of the last message of the prompt: two messages of one role in a row are refused by some templates. */
export function withNote(messages: readonly Message[], note: string): Message[] {
  const last = messages.at(-1);
  if (last === undefined || last.role !== "user") return [...messages, { role: "user", content: note }];
  return [...messages.slice(0, -1), { ...last, content: `${last.content}\n\n${note}` }];
}

function clip(text: string, limit: number): string {
  const flat = [...text.replace(/\s+/g, " ").trim()];
  return flat.length > limit ? `${flat.slice(0, limit - 1).join("")}…` : flat.join("");
}
