/** What a user can say about answers, and what of it is learned: pairs, labelled answers and corrected dialogues. */
import type { EncodedDialogue } from "../../compute/text/dialogue.ts";
import { encodeAnswer } from "../../compute/text/dialogue.ts";
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import { ConfigError, expected } from "../../errors.ts";
import type { FinishReason, Json, Message, ToolSpec } from "../../types.ts";

/** An answer of `generate`, with the ids as they were sampled. */
export interface Answer {
  readonly id: string;
  readonly adapter: string;
  /** Updates that the adapter had learned when it answered. */
  readonly version: number;
  readonly prompt: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly message: Message;
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  readonly finish: FinishReason;
}

/** An answer of `generate`, or somebody's text or message, which is encoded as the model would have written it. */
type Given = Answer | string | Message;
/** Left out where an answer of `generate` is given: it knows its prompt. */
interface Prompted {
  readonly prompt?: string | readonly Message[];
  readonly tools?: readonly ToolSpec[];
}

export type Taught = Prompted &
  (
    | { readonly chosen: Given; readonly rejected: Given }
    /** Best first. */
    | { readonly ranked: readonly Given[] }
    | { readonly answer: Given; readonly score: 0 | 1 | 2 | 3 | 4 }
    | { readonly answer: Given; readonly good: boolean }
    | { readonly answer: Given; readonly correction: string | Message }
    /** An answer as it should be, without one to compare it with. */
    | { readonly prompt: string | readonly Message[]; readonly demonstration: Given }
    /** Words about the answer; the model itself makes a corrected answer of them. */
    | { readonly answer: Given; readonly comment: string }
  );

/** Rows of one answer. */
type Rows = readonly EncodedDialogue[];
/** A lesson without the reference's log-probs. */
export type Draft =
  | {
      readonly kind: "pair";
      readonly weight: number;
      /** Weight of the chosen answer's likelihood beside the preference; default: the setting. */
      readonly likelihood?: number;
      readonly chosen: Rows;
      readonly rejected: Rows;
    }
  | { readonly kind: "label"; readonly weight: number; readonly rows: Rows; readonly good: boolean }
  | { readonly kind: "dialogue"; readonly weight: number; readonly rows: Rows };

interface Read {
  readonly drafts: readonly Draft[];
  /** As a person reads it. */
  readonly given: Json;
}

const isAnswer = (given: Given): given is Answer => typeof given === "object" && "promptIds" in given;
export const messageOf = (given: Given): Message =>
  typeof given === "string" ? { role: "assistant", content: given } : isAnswer(given) ? given.message : given;

export const promptOf = (prompt: string | readonly Message[]): readonly Message[] =>
  typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;

/** The conversation that the feedback is about. */
export function contextOf(taught: Taught): { readonly prompt: readonly Message[]; readonly tools: readonly ToolSpec[] } {
  const answers = answersOf(taught).filter(isAnswer);
  const [first] = answers;
  if (taught.prompt !== undefined) {
    const prompt = promptOf(taught.prompt);
    const other = answers.find((answer) => JSON.stringify(answer.prompt) !== JSON.stringify(prompt));
    if (other !== undefined) throw new ConfigError(expected("learn", `answers to the prompt`, `answer ${other.id} to another one`));
    return { prompt, tools: taught.tools ?? first?.tools ?? [] };
  }
  if (first === undefined) throw new ConfigError(expected("learn", "a prompt, or answers of generate", "texts alone"));
  const other = answers.find((answer) => JSON.stringify(answer.prompt) !== JSON.stringify(first.prompt));
  if (other !== undefined) throw new ConfigError(expected("learn", "answers to one prompt", `answers ${first.id} and ${other.id} to two`));
  return { prompt: first.prompt, tools: first.tools };
}

function answersOf(taught: Taught): readonly Given[] {
  if ("chosen" in taught) return [taught.chosen, taught.rejected];
  if ("ranked" in taught) return taught.ranked;
  if ("demonstration" in taught) return [taught.demonstration];
  return [taught.answer];
}

/** The feedback as lessons; a comment must have been turned into a correction before. */
export function readFeedback(taught: Exclude<Taught, { readonly comment: string }>, renderer: ChatRenderer): Read {
  const { prompt, tools } = contextOf(taught);
  const rowsOf = (given: Given, name: string): Rows => {
    if (isAnswer(given)) return [exactly(given, name)];
    return encodeAnswer(renderer, { prompt, tools, answer: [messageOf(given)] }, `learn ${name}`);
  };
  const told = (fields: Readonly<Record<string, Json>>): Json => ({ prompt: prompt as unknown as Json, ...fields });
  const shown = (given: Given): Json => messageOf(given) as unknown as Json;
  if ("chosen" in taught) {
    const [chosen, rejected] = [rowsOf(taught.chosen, "chosen"), rowsOf(taught.rejected, "rejected")];
    refuseSame(chosen, rejected, "chosen and rejected");
    const given = told({ type: "pair", chosen: shown(taught.chosen), rejected: shown(taught.rejected) });
    return { drafts: [{ kind: "pair", weight: 1, chosen, rejected }], given };
  }
  if ("ranked" in taught) {
    if (taught.ranked.length < 2) throw new ConfigError(expected("learn ranked", "at least 2 answers", String(taught.ranked.length)));
    const rows = taught.ranked.map((one, i) => rowsOf(one, `ranked ${i + 1}`));
    const weight = 2 / (rows.length * (rows.length - 1));
    const drafts = rows.flatMap((chosen, i) =>
      rows.slice(i + 1).map((rejected, j): Draft => {
        refuseSame(chosen, rejected, `ranked ${i + 1} and ${i + j + 2}`);
        return { kind: "pair", weight, chosen, rejected };
      }),
    );
    return { drafts, given: told({ type: "rank", ranked: taught.ranked.map(shown) }) };
  }
  if ("demonstration" in taught) {
    const { demonstration } = taught;
    const given = told({ type: "demonstration", answer: shown(demonstration) });
    return { drafts: [{ kind: "dialogue", weight: 1, rows: rowsOf(demonstration, "demonstration") }], given };
  }
  const rows = rowsOf(taught.answer, "answer");
  const answer = shown(taught.answer);
  if ("good" in taught) {
    const { good } = taught;
    return { drafts: [{ kind: "label", weight: 1, rows, good }], given: told({ type: "binary", answer, good }) };
  }
  if ("score" in taught) {
    const { score } = taught;
    if (![0, 1, 2, 3, 4].includes(score)) throw new ConfigError(expected("learn score", "0, 1, 2, 3 or 4", String(score)));
    const drafts: Draft[] = score === 2 ? [] : [{ kind: "label", weight: Math.abs(score - 2) / 2, rows, good: score > 2 }];
    return { drafts, given: told({ type: "score", answer, score }) };
  }
  const right = rowsOf(taught.correction, "correction");
  const given = told({ type: "correction", answer, correction: shown(taught.correction) });
  refuseSame(right, rows, "correction and answer");
  return { drafts: [{ kind: "pair", weight: 1, likelihood: 1, chosen: right, rejected: rows }], given };
}

/** The ids as they were sampled, never encoded again. */
export function exactly({ id, promptIds, ids }: Answer, name: string): EncodedDialogue {
  if (ids.length === 0) throw new ConfigError(expected(`learn ${name}`, "an answer with tokens", `answer ${id} without any`));
  return { ids: Int32Array.from([...promptIds, ...ids]), trained: Int32Array.from(ids, (_id, t) => promptIds.length + t) };
}

function refuseSame(one: Rows, other: Rows, names: string): void {
  if (JSON.stringify(one.map(({ ids }) => [...ids])) === JSON.stringify(other.map(({ ids }) => [...ids])))
    throw new ConfigError(expected(`learn ${names}`, "two different answers", "the same one twice", "there is nothing to prefer"));
}
