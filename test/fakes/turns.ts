/** Trajectories of several turns, for tests of credit over turns. */
import { finite } from "../../src/errors.ts";
import type { EpisodeEnd, Message, Row, Scored, Trajectory, Turn } from "../../src/types.ts";
import { QUESTION, context, memberOf, sampled, trajectoryOf } from "./credit.ts";

interface Step {
  /** Sampled tokens of the turn; 1 if left out. */
  readonly tokens?: number;
  /** What the environment says after it. */
  readonly reply?: string;
  readonly says?: string;
  readonly reward?: number;
  /** The turn begins a new row. */
  readonly newRow?: boolean;
}

export function turnsOf(steps: readonly Step[], end: EpisodeEnd = { type: "done" }, id = "t"): Trajectory {
  const rows: { spans: Row["spans"][number][] }[] = [];
  const turns: Turn[] = [];
  const messages: Message[] = [...QUESTION.prompt];
  steps.forEach(({ tokens = 1, reply, says = "a", reward, newRow = false }, t) => {
    if (t === 0 || newRow) rows.push({ spans: [] });
    const { spans } = rows.at(-1)!;
    spans.push(context(1, 2), sampled(Array.from({ length: tokens }, (_, i) => 10 * t + i)));
    const replies: Message[] = reply === undefined ? [] : [{ role: "user", content: reply }];
    const message: Message = { role: "assistant", content: says };
    const given = reward === undefined ? {} : { reward: finite(reward, "reward") };
    turns.push({ row: rows.length - 1, span: spans.length - 1, message, parse: "answer", replies, ...given });
    messages.push(message, ...replies);
  });
  return { ...trajectoryOf(rows, end, id), turns, messages };
}

/** One-token turns that go through states of these names; the first begins in the prompt. */
export function walk(score: number | string, replies: readonly string[], end: EpisodeEnd = { type: "done" }): Scored {
  const steps = [...replies.map((reply) => ({ reply })), {}];
  return memberOf(turnsOf(steps, end, replies.join("-")), score);
}
