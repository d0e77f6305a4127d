/**
 * Keeps text that people, tools and models wrote from becoming special tokens. Special-token strings in such text are put between
 * two marker characters before the template renders it; after rendering, what stands between markers is encoded as plain text and
 * everything else, the template's own special tokens with it, is encoded as always. Text without such strings is not touched, so
 * its ids are those of encoding the rendered text in one piece.
 */
import type { Json, Message, ToolSpec } from "../../types.ts";
import type { Tokenizer } from "./tokenizer.ts";

export interface Guard {
  message(message: Message): Message;
  tool(tool: ToolSpec): ToolSpec;
  /** The rendered text without markers: what people would read. */
  strip(marked: string): string;
  /** The part of `marked` after its first `length` characters, markers not counted. */
  after(marked: string, length: number): string;
  encode(marked: string): number[];
}

/** Makes a guard for all of `texts`, which must hold everything that will be rendered: its markers occur in none of them. */
export type GuardMaker = (texts: readonly unknown[]) => Guard;

export function guardMaker(tokenizer: Tokenizer): GuardMaker {
  const controls = tokenizer.specials.map(({ text }) => text).filter((text) => text.trim() !== "");
  const anyControl = controls.length === 0 ? "(?!)" : controls.sort((a, b) => b.length - a.length).map(escape).join("|");
  const control = new RegExp(anyControl, "gu");
  const edges = new Edges(controls);
  return (texts) => {
    const [open, close] = freeCharacters(JSON.stringify(texts));
    const marks = new RegExp(`${open}(${anyControl})${close}|[${open}${close}]`, "gu");
    const lone = new RegExp(`[${open}${close}]`, "gu");
    const text = (value: string): string => {
      const marked = value.replace(control, (found) => open + found + close);
      return (edges.starts(value) ? close : "") + marked + (edges.ends(value) ? close : "");
    };
    return {
      message: (message) => ({ ...guardValue(message, text), role: message.role }),
      tool: (tool) => guardValue(tool, text),
      strip: (marked) => marked.replace(lone, ""),
      after: (marked, length) => marked.slice(offsetAfter(marked, length, open + close)),
      encode: (marked) => encodeMarked(tokenizer, marked, marks),
    };
  };
}

function guardValue<T>(value: T, text: (value: string) => string): T {
  const json = (item: Json): Json => {
    if (typeof item === "string") return text(item);
    if (item === null || typeof item !== "object") return item;
    if (Array.isArray(item)) return item.map(json);
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [text(key), json(inner)]));
  };
  return json(value as Json) as T;
}

function encodeMarked(tokenizer: Tokenizer, marked: string, marks: RegExp): number[] {
  const ids: number[] = [];
  let at = 0;
  for (const match of marked.matchAll(marks)) {
    for (const id of tokenizer.encode(marked.slice(at, match.index))) ids.push(id);
    for (const id of tokenizer.encodePlain(match[1] ?? "")) ids.push(id);
    at = match.index + match[0].length;
  }
  for (const id of tokenizer.encode(marked.slice(at))) ids.push(id);
  return ids;
}

function offsetAfter(marked: string, length: number, markers: string): number {
  let at = 0;
  for (let left = length; left > 0; at++) if (!markers.includes(marked[at]!)) left--;
  return at;
}

/** Two characters that are not in `text`; Unicode keeps U+FDD0 to U+FDEF for such use inside programs. */
function freeCharacters(text: string): readonly [string, string] {
  const free: string[] = [];
  for (let code = 0xfdd0; free.length < 2; code = code === 0xfdef ? 0xe000 : code + 1) {
    const character = String.fromCharCode(code);
    if (!text.includes(character)) free.push(character);
  }
  return [free[0]!, free[1]!];
}

/**
 * Whether text, put beside what the template wrote, could complete a special token that begins or ends outside of it. Two characters
 * at least: a template that writes all of a special token but one character does not exist, and a text that ends in "<" is common.
 */
class Edges {
  private readonly beginnings = new Set<string>();
  private readonly endings = new Set<string>();
  private readonly longest: number;

  constructor(controls: readonly string[]) {
    this.longest = controls.reduce((longest, control) => Math.max(longest, control.length), 0);
    for (const control of controls) {
      for (let length = 2; length < control.length; length++) {
        this.beginnings.add(control.slice(0, length));
        this.endings.add(control.slice(-length));
      }
    }
  }

  starts(text: string): boolean {
    for (let length = 2; length <= Math.min(text.length, this.longest); length++) if (this.endings.has(text.slice(0, length))) return true;
    return false;
  }

  ends(text: string): boolean {
    for (let length = 2; length <= Math.min(text.length, this.longest); length++) if (this.beginnings.has(text.slice(-length))) return true;
    return false;
  }
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}
