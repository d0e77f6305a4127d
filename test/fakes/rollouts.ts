/** Small recorded rollouts for tests of the record, the reports and the terminal output. */
import { scored } from "../../src/errors.ts";
import { rng, uniform } from "../../src/random.ts";
import type { Credit, PolicyVersion, Scored, Trajectory } from "../../src/types.ts";

/** Two turns, one tool call: context [1,2,3], sampled [4,5], context [6], sampled [7,8,2]. */
export function fakeTrajectory(id: string, version = 3): Trajectory {
  const at = version as PolicyVersion;
  const key = rng(7, id);
  const logprob = (token: number): number => Math.fround(Math.log(0.05 + 0.95 * uniform(key, token)));
  const call = { id: "call_1", name: "add", arguments: { a: 2, b: 40 } };
  const ask = { role: "user", content: "What is 2 + 40?" } as const;
  const first = { role: "assistant", content: "", toolCalls: [call] } as const;
  const reply = { role: "tool", content: "42", toolCallId: "call_1", name: "add" } as const;
  const last = { role: "assistant", content: "The answer is 42" } as const;
  return {
    id,
    task: { id: "sum-1", prompt: [ask], data: { answer: "42" } },
    sample: 0,
    rows: [
      {
        spans: [
          { kind: "context", ids: [1, 2, 3] },
          { kind: "sampled", ids: [4, 5], logprobs: [logprob(0), logprob(1)], finish: { type: "eos", id: 5 }, version: at, temperature: 1 },
          { kind: "context", ids: [6] },
          {
            kind: "sampled",
            ids: [7, 8, 2],
            logprobs: [logprob(2), logprob(3), logprob(4)],
            finish: { type: "eos", id: 2 },
            version: at,
            temperature: 1,
          },
        ],
      },
    ],
    turns: [
      { row: 0, span: 1, message: first, parse: "toolCalls", replies: [reply] },
      { row: 0, span: 3, message: last, parse: "answer", replies: [] },
    ],
    messages: [ask, first, reply, last],
    end: { type: "done" },
    measures: { "tools/calls": 1, "tools/errors": 0 },
    seconds: 0.25,
  };
}

export function fakeScored(id: string, score = 1): Scored {
  return { trajectory: fakeTrajectory(id), verdict: scored(score, score === 1 ? "42 is right" : "42 was expected", { correct: score }) };
}

export function fakeCredit(scoredRollout: Scored, advantage = 0.7): Credit {
  return { trajectory: scoredRollout.trajectory, advantages: [new Float32Array(5).fill(advantage)] };
}
