/** Graded rollouts of given lengths and ends, for tests of advantages, batches and losses. */
import { noEvidence } from "../../src/train/evidence.ts";
import { finite, scored } from "../../src/errors.ts";
import type { EpisodeEnd, Group, PolicyVersion, Row, SampledSpan, Scored, Span, Task, Trajectory, Verdict } from "../../src/types.ts";

export const QUESTION: Task = { id: "q", prompt: [{ role: "user", content: "?" }], data: {} };

export const context = (...ids: readonly number[]): Span => ({ kind: "context", ids });

/** A sampled span; log-prob -1 a token unless said otherwise. */
export function sampled(ids: readonly number[], logprobs: readonly number[] = ids.map(() => -1)): SampledSpan {
  return { kind: "sampled", ids, logprobs, finish: { type: "eos", id: ids.at(-1)! }, version: 0 as PolicyVersion, temperature: 1 };
}

export function trajectoryOf(rows: readonly Row[], end: EpisodeEnd = { type: "done" }, id = "t"): Trajectory {
  const lengths = rows.flatMap(({ spans }) => spans.map((span) => (span.kind === "sampled" ? span.ids.length : 0)));
  const sampledTokens = lengths.reduce((a, b) => a + b, 0);
  return { id, task: QUESTION, sample: 0, rows, turns: [], messages: [], end, measures: { sampledTokens }, seconds: 0 };
}

/** One row: two tokens of prompt, `length` sampled ones. */
export function answerOf(length: number, end: EpisodeEnd = { type: "done" }): Trajectory {
  return trajectoryOf([{ spans: [context(1, 2), sampled(Array.from({ length }, (_, i) => 3 + i))] }], end);
}

/** A score, or why there is none. */
export function verdictOf(score: number | string): Verdict {
  return typeof score === "string" ? { type: "unscorable", reason: score } : scored(score, "as given", { correct: finite(score, "score") });
}

export function memberOf(trajectory: Trajectory, score: number | string): Scored {
  return { trajectory, verdict: verdictOf(score) };
}

/** A group of answers of three tokens with these scores. */
export function groupOf(...scores: readonly (number | string)[]): Group {
  return { task: QUESTION, members: scores.map((score) => memberOf(answerOf(3), score)) };
}

/** What an algorithm that needs rewards alone is told. */
export const plainContext = noEvidence({ maxTokens: 64, maxTurns: 4 });
