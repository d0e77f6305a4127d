/** What a step reports, and what the detector makes of several. */
import { expect, test } from "vitest";
import { scored } from "../../src/errors.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { grpo } from "../../src/algo/grpo.ts";
import { healthOf } from "../../src/train/collapse.ts";
import { encodeMetricsRow } from "../../src/train/record/metrics.ts";
import { SignalDetector, signalOf } from "../../src/train/signal.ts";
import { stepMetrics } from "../../src/train/step-metrics.ts";
import type { EpisodeEnd, Group, Scored, Verdict } from "../../src/types.ts";
import { answerOf, groupOf, memberOf, plainContext, QUESTION } from "../fakes/credit.ts";

const groupWith = (...members: readonly Scored[]): Group => ({ task: QUESTION, members });
const cut: EpisodeEnd = { type: "length" };

function metricsOf(groups: readonly Group[], maskTruncated = false) {
  const credits = grpo({ groupSize: 2 }).credit(groups, plainContext);
  const built = buildBatch(credits, { reduction: "token-mean", maskTruncated, maxLength: 8, skipZero: true });
  const rest = { replaced: 0, coefficients: { klCoef: 0.05 }, parts: [], seconds: { rollout: 2, evidence: 0, update: 0 } };
  return stepMetrics({ step: 1, groups, built, signals: signalOf(groups), health: healthOf(groups, undefined), ...rest });
}

test("reward is averaged over rollouts, however many turns each had", () => {
  const turns = (count: number): Scored["trajectory"] => ({
    ...answerOf(3),
    turns: Array.from({ length: count }, () => ({
      row: 0,
      span: 1,
      message: { role: "assistant", content: "" },
      parse: "answer",
      replies: [],
    })),
  });
  expect(metricsOf([groupWith(memberOf(turns(2), 1), memberOf(turns(10), 0))])["reward/mean"]).toBe(0.5);
});

test("constant groups show a deviation over the batch, none within groups, and no signal", () => {
  const eight = (score: number) => groupOf(...Array.from({ length: 8 }, () => score));
  const row = metricsOf([eight(-8), eight(2), eight(-8), eight(2)]);
  expect(row["reward/std"]).toBeCloseTo(5 * Math.sqrt(32 / 31), 10);
  expect(row).toMatchObject({ "reward/groupStd": 0, fracZeroStd: 1, "reward/mean": -3, "batch/rows": 0, "batch/skipped": 1 });
  expect(metricsOf([groupOf(0, 1), groupOf(1, 1)])["reward/groupStd"]).toBeCloseTo(Math.SQRT1_2 / 2, 10);
});

test("a component is averaged over the rollouts that have it", () => {
  const part = (verdict: Verdict): Scored => ({ trajectory: answerOf(3), verdict });
  const row = metricsOf([groupWith(part(scored(1, "", { style: 0.5 })), part(scored(1, "")), part(scored(1, "", { style: 0.8 })))]);
  expect(row["reward/style"]).toBeCloseTo(0.65, 12);
});

test("lengths count what was sampled, also where it is masked; all masked is a skipped step", () => {
  const row = metricsOf([groupWith(memberOf(answerOf(4), 1), memberOf(answerOf(6, cut), 0))], true);
  expect(row).toMatchObject({
    "length/min": 4, "length/max": 6, "length/mean": 5, "length/finished": 4, truncated: 0.5, "batch/tokens": 4, "batch/skipped": 0,
    "tokensPerSecond/rollout": 5,
  });
  const none = metricsOf([groupWith(memberOf(answerOf(4, cut), 1), memberOf(answerOf(6, cut), 0))], true);
  expect(none).toMatchObject({ "batch/tokens": 0, "batch/rows": 0, "batch/skipped": 1, truncated: 1 });
  expect(encodeMetricsRow(none)).toContain('"length/finished":"NaN"');
});

test("what an environment or a grader names never hides a number of the run", () => {
  const member: Scored = {
    trajectory: { ...answerOf(3), measures: { sampledTokens: 3, step: 99, truncated: 5, tools: 2 } },
    verdict: scored(1, "", { mean: 7, style: 1 }),
  };
  expect(metricsOf([groupWith(member)])).toMatchObject({ step: 1, truncated: 0, tools: 2, "reward/mean": 1, "reward/style": 1 });
});

// -------------------------------------------------------------------------------------------------------------- detector

function said(steps: readonly (readonly Group[])[], maxTokens = 8): (string | undefined)[] {
  const detector = new SignalDetector(maxTokens);
  return steps.map((groups) => detector.observe(signalOf(groups)));
}
const repeated = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

test("cut at the limit with reward 0: told once, at the third step", () => {
  const group = groupWith(...repeated(4, memberOf(answerOf(8, cut), 0)));
  const text = "no learning signal: 100 % of completions cut at 8 tokens, reward 0 everywhere; raise rollout.maxTokens";
  expect(said(repeated(6, [group]))).toEqual([undefined, undefined, text, undefined, undefined, undefined]);
});

test.each<[string, Group, RegExp]>([
  [
    "turns that ran out",
    groupWith(...repeated(4, memberOf(answerOf(3, { type: "turnLimit" }), 0))),
    /100 % of episodes ended by their limit of turns, .* raise rollout.maxTurns$/,
  ],
  [
    "nothing right",
    groupOf(0, 0, 0),
    /reward 0 everywhere; the tasks are too hard for this model, or the grader does not read its answers$/,
  ],
  ["everything right", groupOf(1, 1, 1), /the same reward \(1.00\) within every group; the tasks are too easy/],
])("%s: the cause is named", (_what, group, cause) => {
  expect(said(repeated(3, [group]))[2]).toMatch(cause);
});

test("a loss of 0 with a signal in it is no alarm, and neither is one step without", () => {
  expect(said(repeated(6, [groupOf(1, 0)]))).toEqual(repeated(6, undefined));
  expect(said([[groupOf(0, 0)], [groupOf(0, 0)], [groupOf(1, 0)], [groupOf(0, 0)]])).toEqual(repeated(4, undefined));
});

test("over a fifth unscored in three steps ends the run with the most common reason of all three", () => {
  const bad = groupOf(1, "HTTP 503", 0, "HTTP 503", "no verdict");
  expect(() => said([[bad], [bad], [groupOf(1, 0, 1, 0, 0)]])).toThrow(
    "rewards of the last 3 steps: expected at most 20 % unscored rollouts, got 40 %; the most common reason: HTTP 503 (4 times)",
  );
  const one = groupOf(1, 0, 1, 0, "HTTP 503");
  expect(said(repeated(4, [one]))).toEqual(repeated(4, undefined));
});
