/** What a tool-call dialect is, and what all of them share. A dialect is how a model family writes calls into its turn. */
import type { Json, JsonObject, ToolCall, ToolSpec } from "../../../types.ts";

/** A call as text carries it; ids are given by the renderer. */
export type CallText = Pick<ToolCall, "name" | "arguments">;

interface ParsedTurn {
  /** Text outside calls and reasoning. The whole text where the turn is malformed. */
  readonly content: string;
  /** In the order of the text; empty where the turn is malformed, so that no part of a broken turn runs. */
  readonly calls: readonly CallText[];
  readonly reasoning?: string;
  /** Why the calls could not be read; a text with a call opener and no readable call is never an answer. */
  readonly malformed: string | null;
}

export interface ParseOptions {
  /** Their schemas say what a value is where the dialect does not (`qwen-xml`). */
  readonly tools?: readonly ToolSpec[];
  /** The generation prompt has already opened `<think>`. */
  readonly insideReasoning?: boolean;
}

export interface Dialect {
  readonly name: string;
  /** The text of a turn. Throws `TokenizerError` for what the dialect cannot carry. */
  render(calls: readonly CallText[], content: string): string;
  /** How much of an unfinished turn's text (after reasoning) stays content whatever follows: it ends where a call may begin. */
  settled(text: string): number;
  /** Reads a turn's text, end token removed. `parse(render(calls, content))` gives back both. */
  parse(text: string, options?: ParseOptions): ParsedTurn;
}

const THINK_OPEN = "<think>";
const THINK_CLOSE = "</think>";

/** Splits a leading `<think>…</think>` off. An unclosed block is reasoning to its end. */
export function splitReasoning(text: string, insideReasoning = false): { readonly reasoning?: string; readonly rest: string } {
  const opened = text.trimStart().startsWith(THINK_OPEN);
  if (!opened && !insideReasoning) return { rest: text };
  const start = opened ? text.indexOf(THINK_OPEN) + THINK_OPEN.length : 0;
  const close = text.indexOf(THINK_CLOSE, start);
  const reasoning = trimLines(text.slice(start, close < 0 ? undefined : close));
  const rest = close < 0 ? "" : text.slice(close + THINK_CLOSE.length).replace(/^\n+/, "");
  return reasoning === "" ? { rest } : { reasoning, rest };
}

/** Whether the text is still reasoning, or may yet turn out to begin with it. */
export function inReasoning(text: string, insideReasoning = false): boolean {
  const start = text.trimStart();
  const opened = start.startsWith(THINK_OPEN) || insideReasoning;
  return opened ? !text.includes(THINK_CLOSE) : THINK_OPEN.startsWith(start);
}

/** Puts reasoning in front of a turn's text, in the form that `splitReasoning` reads. */
export function joinReasoning(reasoning: string | undefined, text: string): string {
  return reasoning === undefined ? text : `${THINK_OPEN}\n${reasoning}\n${THINK_CLOSE}\n\n${text}`;
}

function trimLines(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text[start] === "\n") start++;
  while (end > start && text[end - 1] === "\n") end--;
  return text.slice(start, end);
}

/** What a dialect's reader finds in the text after reasoning: calls and other text, or why not. */
export type Reading = { readonly content: string; readonly calls: readonly CallText[] } | { readonly malformed: string };

/** One call at a place in the text, and where it ends; or why there is none. */
export type FoundCall = { readonly call: CallText; readonly end: number } | { readonly malformed: string };

/**
 * Text that stands beside calls. White space around a call belongs to the call, except before the first, where one line end does:
 * that is what dialects write between text and call.
 */
function textBeside(text: string, where: { readonly afterCall: boolean; readonly beforeCall: boolean }): string {
  if (where.afterCall) return text.trim() === "" ? "" : text;
  return where.beforeCall && text.endsWith("\n") ? text.slice(0, -1) : text;
}

interface TaggedCalls {
  /** What a call begins with. */
  readonly open: string;
  /** Texts that have no place outside a call. */
  readonly marks: readonly string[];
  /** Reads the call that follows `open`; `end` is behind its closing mark. */
  readonly readOne: (text: string, start: number, options: ParseOptions) => FoundCall;
}

/** A reader of calls between an opening and a closing mark, any number of them, with text beside them. */
export function taggedCalls({ open: mark, marks, readOne }: TaggedCalls): (text: string, options: ParseOptions) => Reading {
  return (text, options) => {
    const calls: CallText[] = [];
    let content = "";
    let at = 0;
    for (;;) {
      const open = text.indexOf(mark, at);
      const between = text.slice(at, open < 0 ? undefined : open);
      const stray = marks.find((candidate) => between.includes(candidate));
      if (stray !== undefined) return { malformed: `${stray} without ${mark}` };
      content += textBeside(between, { afterCall: calls.length > 0, beforeCall: open >= 0 });
      if (open < 0) return { content, calls };
      const found = readOne(text, open + mark.length, options);
      if ("malformed" in found) return found;
      calls.push(found.call);
      at = found.end;
    }
  };
}

/** `settled` of a dialect whose calls and stray marks all begin with one of `marks`; one line end before a call belongs to the call. */
export function settledBefore(text: string, marks: readonly string[]): number {
  const found = marks.map((mark) => text.indexOf(mark)).filter((at) => at >= 0);
  const begun = marks.map((mark) => text.length - overlap(text, mark));
  const at = Math.min(text.length, ...found, ...begun);
  return text[at - 1] === "\n" ? at - 1 : at;
}

/** Length of the longest end of `text` that `mark` begins with and does not end with. */
export function overlap(text: string, mark: string): number {
  for (let length = Math.min(text.length, mark.length - 1); length > 0; length--) if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}

/** Makes a parser from a reader: reasoning first, and a malformed turn keeps its whole text and no call. */
export function parser(read: (text: string, options: ParseOptions) => Reading): Dialect["parse"] {
  return (text, options = {}) => {
    const { reasoning, rest } = splitReasoning(text, options.insideReasoning);
    const thought = reasoning === undefined ? {} : { reasoning };
    const found = read(rest, options);
    return "malformed" in found
      ? { content: rest, calls: [], malformed: found.malformed, ...thought }
      : { content: found.content, calls: found.calls, malformed: null, ...thought };
  };
}

export function isObject(value: Json | undefined): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
