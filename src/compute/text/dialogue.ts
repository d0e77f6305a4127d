/**
 * Given conversations as rows, encoded turn by turn as a rollout would have made them: no token spans the end of a prompt. Assistant
 * turns are trained with their end of turn, everything else is context.
 */
import { ConfigError, expected, messageOf } from "../../errors.ts";
import type { Message, ToolSpec } from "../../types.ts";
import type { ChatRenderer } from "./renderer.ts";

/**
 * Bytes of messages that can only be longer than `contextLength` tokens, each token being as long as the longest; null for what may fit.
 * Looked at before encoding, which takes minutes for tens of megabytes.
 */
export function hopelessBytes({ tokenizer }: ChatRenderer, messages: readonly Message[], contextLength: number): number | null {
  const bytes = messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0);
  return bytes > contextLength * tokenizer.longestToken ? bytes : null;
}

interface Dialogue {
  readonly messages: readonly Message[];
  readonly tools?: readonly ToolSpec[];
}

/** Ids and trained positions of a dialogue; a row for each run of turns that the template keeps in one piece. */
export interface EncodedDialogue {
  readonly ids: Int32Array;
  readonly trained: Int32Array;
}

/** Encodes a dialogue from its first assistant turn on. Refused (with `where`) if no assistant turn is in it. */
export function encodeDialogue(renderer: ChatRenderer, { messages, tools = [] }: Dialogue, where: string): EncodedDialogue[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  if (first < 1)
    throw new ConfigError(
      expected(where, "a prompt and then an assistant message", first === 0 ? "an assistant message first" : "no assistant message"),
    );
  return encodeTurns(renderer, { prompt: messages.slice(0, first), answer: messages.slice(first), tools }, where).rows;
}

interface Answered {
  /** May have assistant turns of its own; they are context. */
  readonly prompt: readonly Message[];
  /** Starts with an assistant message; may go on with tool results and further turns. */
  readonly answer: readonly Message[];
  readonly tools?: readonly ToolSpec[];
}

interface EncodedAnswer {
  readonly rows: EncodedDialogue[];
  /** Ids of the first prompt. */
  readonly prompt: readonly number[];
}

/** Whatever the template or the tokenizer refuses is said with its place. */
function encodeTurns(renderer: ChatRenderer, given: Answered, where: string): EncodedAnswer {
  try {
    return turns(renderer, given);
  } catch (cause) {
    throw new ConfigError(`${where}: ${messageOf(cause)}`, { cause });
  }
}

function turns(renderer: ChatRenderer, { prompt, answer, tools = [] }: Answered): EncodedAnswer {
  let { ids: context, state } = renderer.start(prompt, tools);
  const opening = context;
  const rows: EncodedDialogue[] = [];
  let ids = [...context];
  let trained: number[] = [];
  for (let at = 0; at < answer.length; ) {
    const turn = renderer.encodeTurn(state, answer[at]!);
    turn.forEach((_, t) => trained.push(ids.length + t));
    ids.push(...turn);
    let next = at + 1;
    while (next < answer.length && answer[next]!.role !== "assistant") next++;
    if (next >= answer.length) break;
    const finish = { type: "eos", id: turn.at(-1)! } as const;
    const extension = renderer.extend(state, { ids: turn, message: answer[at]!, finish }, answer.slice(at + 1, next));
    if (extension.kind === "new-row") {
      rows.push({ ids: Int32Array.from(ids), trained: Int32Array.from(trained) });
      ids = [];
      trained = [];
    }
    ({ ids: context, state } = extension);
    ids.push(...context);
    at = next;
  }
  rows.push({ ids: Int32Array.from(ids), trained: Int32Array.from(trained) });
  return { rows, prompt: opening };
}

/**
 * Encodes an answer to a prompt. Refused with `where`: an answer without a token, one that does not end its turn, a prompt that is no
 * strict prefix of a row, a begin-of-text token that stands twice.
 */
export function encodeAnswer(renderer: ChatRenderer, given: Answered, where: string): EncodedDialogue[] {
  const refuse = (want: string, got: string): never => {
    throw new ConfigError(expected(where, want, got));
  };
  const { prompt, answer } = given;
  const [first, last] = [answer[0]?.role ?? "no message", answer.at(-1)?.role ?? "no message"];
  if (first !== "assistant" || last !== "assistant")
    refuse("an answer that begins and ends with an assistant message", `${first} to ${last}`);
  const ending = prompt.at(-1)?.role;
  if (ending === undefined || ending === "assistant")
    refuse("a prompt that ends with a user, system or tool message", ending ?? "no message");
  const silent = answer.findIndex((message) => message.role === "assistant" && isEmpty(message));
  if (silent >= 0) refuse("at least one token in each assistant message", `none in message ${silent + 1}`);
  const { rows, prompt: opening } = encodeTurns(renderer, given, where);
  for (const { ids, trained } of rows) {
    if (ids.length <= opening.length || !opening.every((id, t) => id === ids[t]))
      refuse("rows that begin with the prompt's ids", "others; the template rewrites the prompt");
    if (renderer.tokenizer.bosId !== undefined && ids[0] === renderer.tokenizer.bosId && ids[1] === ids[0])
      refuse("one begin-of-text token", "two; take it out of the text or of the template");
    const end = ids[trained.at(-1)!]!;
    if (!renderer.stopIds.includes(end)) refuse("an answer that ends with an end of turn", `token ${end}`);
  }
  return rows;
}

const isEmpty = ({ content, reasoning = "", toolCalls = [] }: Message): boolean =>
  content === "" && reasoning === "" && toolCalls.length === 0;
