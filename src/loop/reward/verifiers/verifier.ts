/**
 * The one interface of all verifiers: an answer and what it is held against, to a verdict. A verifier that cannot decide says so; it
 * never scores 0 for a fault of its own.
 */
import { messageOf, scored } from "../../../errors.ts";
import type { Json, Message, Reward, Task, Verdict } from "../../../types.ts";
import { finalAnswer } from "../final-answer.ts";

export interface VerifierInput {
  /** The whole text of the final answer; finding the part that counts is the verifier's work. */
  readonly answer: string;
  readonly gold: Json;
  /** An abort makes `verify` reject with its reason; whatever was started is stopped. */
  readonly signal?: AbortSignal;
}

/**
 * Scored: a score and why. Unscorable: this pair cannot be decided (no usable gold, a limit was reached). Infrastructure: what grades
 * is missing or broken. `verify` rejects for an abort alone.
 */
export interface Verifier {
  readonly name: string;
  verify(input: VerifierInput): Promise<Verdict>;
}

export interface VerifierRewardOptions {
  /** What the answer is held against; what it throws makes the task unscorable. */
  readonly gold: (task: Task) => Json;
  /** Where the answer is; default: the final answer of a finished episode, and an episode without one scores 0 with the reason. */
  readonly answer?: (messages: readonly Message[]) => string;
}

/** A verifier as the reward of an environment. */
export function verifierReward(verifier: Verifier, { gold, answer }: VerifierRewardOptions): Reward {
  return async (episode) => {
    let wanted: Json;
    try {
      wanted = gold(episode.task);
    } catch (cause) {
      return { type: "unscorable", reason: `${verifier.name}: task ${episode.task.id} has no gold: ${messageOf(cause)}` };
    }
    const final = answer === undefined ? finalAnswer(episode) : ({ type: "answer", text: answer(episode.messages) } as const);
    return final.type === "none" ? scored(0, final.reason) : verifier.verify({ answer: final.text, gold: wanted });
  };
}

/** Grading without waiting for anything outside: what it throws is an infrastructure failure. */
export function verifierOf(name: string, grade: (input: VerifierInput) => Verdict | Promise<Verdict>): Verifier {
  return {
    name,
    async verify(input) {
      input.signal?.throwIfAborted();
      if (typeof input.answer !== "string") return unscorable(`the answer is ${typeof input.answer}, not a text`);
      try {
        return readable(await grade(input));
      } catch (cause) {
        input.signal?.throwIfAborted();
        return readable(infrastructure(`${name}: ${messageOf(cause)}`));
      }
    },
  };
}

const MAX_EXPLANATION = 500;

/** One line without control characters, whatever the graded text holds. */
function readable(verdict: Verdict): Verdict {
  return verdict.type === "scored"
    ? { ...verdict, explanation: shown(verdict.explanation, MAX_EXPLANATION) }
    : { ...verdict, reason: shown(verdict.reason, MAX_EXPLANATION) };
}

export function unscorable(reason: string): Verdict {
  return { type: "unscorable", reason };
}

export function infrastructure(reason: string): Verdict {
  return { type: "infrastructure", reason };
}

/** Text of others inside an explanation: one line, at most `limit` characters. */
export function shown(text: string, limit = 80): string {
  const flat = text.slice(0, limit * 4).replace(/[\s\p{C}]+/gu, " ").trim();
  return flat.length > limit || text.length > limit * 4 ? `${flat.slice(0, limit)}…` : flat;
}
