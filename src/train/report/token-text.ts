/** Tokens of a recorded rollout with everything that was recorded of each, for people to read. */
import type { Credit, FinishReason, Row } from "../../types.ts";

/** Turns ids into text; never called with an empty list. */
export type Decode = (ids: readonly number[]) => string;

export interface ContextToken {
  readonly kind: "context";
  readonly id: number;
  readonly text: string;
}

export interface SampledToken {
  readonly kind: "sampled";
  readonly id: number;
  readonly text: string;
  readonly logprob: number;
  readonly version: number;
  /** Undefined for a rollout without credit. */
  readonly advantage: number | undefined;
}

/** Stands in for a tokenizer that cannot be had: ids in angle brackets. */
export const decodeAsIds: Decode = (ids) => ids.map((id) => `⟨${id}⟩`).join("");

/** All tokens of one row, span by span; `index` is the row's place in its trajectory. */
export function rowTokens(
  row: Row,
  index: number,
  options: { readonly credit: Credit | null; readonly decode: Decode },
): (ContextToken | SampledToken)[][] {
  const { credit, decode } = options;
  const advantages = credit?.advantages[index];
  let place = 0;
  return row.spans.map((span) => {
    const texts = tokenTexts(span.ids, decode);
    if (span.kind === "context") return span.ids.map((id, i) => ({ kind: "context", id, text: texts[i] ?? "" }));
    return span.ids.map((id, i) => ({
      kind: "sampled",
      id,
      text: texts[i] ?? "",
      logprob: span.logprobs[i] ?? Number.NaN,
      version: span.version,
      advantage: advantages?.[place++],
    }));
  });
}

/**
 * One text a token. A character that is spread over several tokens (part of a byte sequence each) is given to the first of
 * them, the others get "".
 */
function tokenTexts(ids: readonly number[], decode: Decode): string[] {
  const texts: string[] = [];
  for (let i = 0; i < ids.length;) {
    let count = 1;
    let text = decode(ids.slice(i, i + 1));
    // UTF-8 characters have at most four bytes.
    for (let more = 2; more <= 4 && text.includes("\ufffd") && i + more <= ids.length; more++) {
      const longer = decode(ids.slice(i, i + more));
      if (!longer.includes("\ufffd")) [text, count] = [longer, more];
    }
    texts.push(text, ...Array.from({ length: count - 1 }, () => ""));
    i += count;
  }
  return texts;
}

export function finishText(finish: FinishReason): string {
  switch (finish.type) {
    case "eos":
      return "end of turn";
    case "stopString":
      return `stop string ${JSON.stringify(finish.value)}`;
    case "length":
      return "length limit";
    case "timeout":
      return "timeout";
    case "error":
      return `error: ${finish.message}`;
  }
}

/** `+0.70`, `−0.70` or `0`. */
export function signed(value: number): string {
  return value === 0 ? "0" : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`;
}
