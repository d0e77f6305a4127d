/**
 * The final answer of an episode: the last assistant message, if it calls no tool and was finished. What the user or a tool said is
 * never an answer, and neither is text that was cut off.
 */
import { scored } from "../../errors.ts";
import type { JsonObject, Reward, Turn, Verdict } from "../../types.ts";

type FinalAnswer = { readonly type: "answer"; readonly text: string } | { readonly type: "none"; readonly reason: string };

const ENDED_WITHOUT: { readonly [Parse in Exclude<Turn["parse"], "answer">]: string } = {
  toolCalls: "the episode ended with a tool call, not with an answer",
  malformedToolCall: "the episode ended with a tool call that could not be read",
  truncated: "the last turn was cut off",
};

export function finalAnswer({ messages, turns }: Pick<Parameters<Reward>[0], "messages" | "turns">): FinalAnswer {
  const parse = turns.at(-1)?.parse;
  if (parse !== undefined && parse !== "answer") return { type: "none", reason: ENDED_WITHOUT[parse] };
  const last = messages.at(-1);
  if (last === undefined || last.role !== "assistant") return { type: "none", reason: "the last message is not the assistant's" };
  if ((last.toolCalls?.length ?? 0) > 0) return { type: "none", reason: ENDED_WITHOUT.toolCalls };
  return { type: "answer", text: last.content };
}

/** A `Reward` that needs no waiting, so that measures can ask it too. */
export type AnswerReward = (episode: Parameters<Reward>[0]) => Verdict;

/**
 * A reward that judges the final answer alone. `judgeOf` reads the task's gold and returns the judge, or why there is none: a task
 * that cannot be graded is unscorable whatever the episode did. An episode without an answer scores 0 with the reason.
 */
export function answerReward(judgeOf: (data: JsonObject) => ((answer: string) => Verdict) | { readonly unscorable: string }): AnswerReward {
  return (episode) => {
    const judge = judgeOf(episode.task.data);
    if (typeof judge !== "function") return { type: "unscorable", reason: judge.unscorable };
    const answer = finalAnswer(episode);
    return answer.type === "none" ? scored(0, answer.reason) : judge(answer.text);
  };
}

/** The part of an answer after the last occurrence of `marker` (case ignored); the whole text if it does not occur. */
export function afterMarker(text: string, marker: string | undefined): string {
  if (marker === undefined || marker === "") return text;
  const at = lowerAscii(text).lastIndexOf(lowerAscii(marker));
  return at < 0 ? text : text.slice(at + marker.length);
}

/** Lower case without changing the length, which `toLowerCase` does to some letters. */
function lowerAscii(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}
