/** Credit with a critic: where rewards land, what an end is worth, and GAE over the sampled tokens of several turns. */
import { expect, test } from "vitest";
import { criticCredit, tokenRewards, type CriticSettings } from "../../../src/loop/advantage/critic.ts";
import type { CreditContext, EpisodeEnd, Evidence, Row, Trajectory } from "../../../src/types.ts";
import { answerOf, context, memberOf, QUESTION, sampled, trajectoryOf } from "../../fakes/credit.ts";

const plain: CriticSettings = {
  gamma: 1, lambda: 0.95, klRewardCoef: 0, rewardClip: 0, missingEosPenalty: 0, cutEpisodes: "bootstrap",
  whitenRewards: false, whitenAdvantages: false,
};
const cut: EpisodeEnd = { type: "length" };

function contextOf(evidence: Evidence | ((trajectory: Trajectory) => Evidence)): CreditContext {
  const of = typeof evidence === "function" ? evidence : () => evidence;
  return { evidence: of, limits: { maxTokens: 8, maxTurns: 4 }, coefficients: {} };
}
const values = (...rows: readonly (readonly number[])[]): Float32Array[] => rows.map((row) => Float32Array.from(row));

/** Advantages and returns of one episode, rounded to six digits. */
function creditOf(trajectory: Trajectory, score: number, { evidence, ...settings }: Partial<CriticSettings> & { evidence: Evidence }) {
  const groups = [{ task: QUESTION, members: [memberOf(trajectory, score)] }];
  const credit = criticCredit(groups, contextOf(evidence), { ...plain, ...settings })[0]![0]!;
  const list = (rows: readonly Float32Array[]): number[] => rows.flatMap((row) => [...row].map((value) => Number(value.toFixed(6))));
  return { advantages: list(credit.advantages), returns: list(credit.returns!), rows: credit.advantages.map(({ length }) => length) };
}
const three = values([0.5, 0.6, 0.7]);

test("an episode that ended by itself: the score is the last token's, and nothing comes after it", () => {
  const { advantages, returns } = creditOf(answerOf(3), 1, { evidence: { values: three, valueAfter: 0 } });
  expect(advantages).toEqual([0.46575, 0.385, 0.3]);
  expect(returns).toEqual([0.96575, 0.985, 1]);
});

test("one that was cut is not terminal: the critic's word on its last state stands in place of the score", () => {
  const evidence = { values: three, valueAfter: 0.8 };
  for (const score of [0, 1]) expect(creditOf(answerOf(3, cut), score, { evidence }).advantages).toEqual([0.28525, 0.195, 0.1]);
  const scored = creditOf(answerOf(3, cut), 0, { evidence, cutEpisodes: "score" });
  expect(scored.advantages).toEqual([-0.43675, -0.565, -0.7]);
  expect(creditOf(answerOf(3, cut), 1, { evidence, cutEpisodes: "score" }).returns.at(-1)).toBe(1);
});

test("the score is at the last sampled token, whatever follows it, and no token is added", () => {
  const row: Row = { spans: [context(1, 2), sampled([3, 4, 5]), context(6, 0, 0)] };
  expect(tokenRewards(trajectoryOf([row]), 1).map((rewards) => [...rewards])).toEqual([[0, 0, 1]]);
  const turns: Row = { spans: [context(1), sampled([3, 4]), context(6, 7), sampled([8])] };
  expect(tokenRewards(trajectoryOf([turns, { spans: [context(1, 2)] }]), 2).map((rewards) => [...rewards])).toEqual([[0, 0, 2], []]);
});

test("lambda 1 is Monte-Carlo: the return minus the value, across turns, tool output and rows", () => {
  const rows: Row[] = [
    { spans: [context(1), sampled([3, 4]), context(6, 7), sampled([8])] },
    { spans: [context(1, 9), sampled([5, 2])] },
  ];
  const trajectory = trajectoryOf(rows);
  const evidence = { values: values([0.1, 0.2, 0.3], [0.4, 0.5]), valueAfter: 0 };
  const credit = creditOf(trajectory, 1, { evidence, lambda: 1, gamma: 0.5 });
  expect(credit.rows).toEqual([3, 2]);
  expect(credit.returns).toEqual([0.0625, 0.125, 0.25, 0.5, 1]);
  expect(credit.advantages).toEqual([-0.0375, -0.075, -0.05, 0.1, 0.5]);
  // The same episode in one row, without the tool's words: context is no step.
  const joined = creditOf(answerOf(5), 1, { evidence: { ...evidence, values: values([0.1, 0.2, 0.3, 0.4, 0.5]) }, lambda: 1, gamma: 0.5 });
  expect(joined.advantages).toEqual(credit.advantages);
});

test("KL in the reward: each token pays for its own distance from the reference", () => {
  const evidence = { values: values([0, 0, 0]), valueAfter: 0, reference: values([-1.5, -1, -0.5]) };
  // Sampled at -1 each: k1 is 0.5, 0, -0.5.
  const { returns } = creditOf(answerOf(3), 1, { evidence, lambda: 1, klRewardCoef: 0.1 });
  expect(returns).toEqual([1, 1.05, 1.05]);
  expect(() => creditOf(answerOf(3), 1, { evidence: { values: three, valueAfter: 0 }, klRewardCoef: 0.1 })).toThrow(
    "trajectory t: expected log-probs under the reference for the KL in the reward, got none",
  );
});

test("scores are clipped, and an answer that did not end by itself pays", () => {
  const evidence = { values: values([0, 0, 0]), valueAfter: 0 };
  const last = (trajectory: Trajectory, score: number, settings: Partial<CriticSettings>): number =>
    creditOf(trajectory, score, { evidence, ...settings }).returns.at(-1)!;
  const clip = { rewardClip: 10 };
  expect([last(answerOf(3), 30, clip), last(answerOf(3), -30, clip), last(answerOf(3), 30, {})]).toEqual([10, -10, 30]);
  const unfinished = trajectoryOf([{ spans: [context(1), { ...sampled([3, 4, 5]), finish: { type: "length" } }] }], cut);
  expect(last(unfinished, 1, { missingEosPenalty: 2, cutEpisodes: "score" })).toBe(-1);
  expect(last(answerOf(3), 1, { missingEosPenalty: 2 })).toBe(1);
});

test("whitened rewards keep their mean and get deviation 1 over the step's tokens; equal ones stay", () => {
  const groups = [{ task: QUESTION, members: [memberOf(answerOf(2), 3), memberOf(answerOf(2), -1)] }];
  const zero = contextOf({ values: values([0, 0]), valueAfter: 0 });
  // Token rewards 0, 3, 0, -1: mean 0.5, sample deviation sqrt(3).
  const credits = criticCredit(groups, zero, { ...plain, lambda: 0, whitenRewards: true }).flat();
  const found = credits.flatMap((credit) => [...credit!.returns![0]!]);
  const wanted = [0, 3, 0, -1].map((reward) => (reward - 0.5) / Math.sqrt(3) + 0.5);
  found.forEach((value, i) => expect(value).toBeCloseTo(wanted[i]!, 6));
  const same = [{ task: QUESTION, members: [memberOf(answerOf(1), 0.7), memberOf(answerOf(1), 0.7)] }];
  const one = contextOf({ values: values([0]), valueAfter: 0 });
  expect(criticCredit(same, one, { ...plain, whitenRewards: true }).flat().map((credit) => credit!.returns![0]![0])).toEqual(
    [0.7, 0.7].map(Math.fround),
  );
});

test("whitened advantages: no signal stays none, exactly; a member without a score has no credit", () => {
  const groups = [{ task: QUESTION, members: [memberOf(answerOf(3), 0), memberOf(answerOf(3), "no grade"), memberOf(answerOf(3), 0)] }];
  const settings = { ...plain, whitenAdvantages: true };
  const nothing = criticCredit(groups, contextOf({ values: values([0, 0, 0]), valueAfter: 0 }), settings)[0]!;
  expect(nothing[1]).toBeNull();
  expect(nothing[0]!.advantages[0]).toEqual(new Float32Array(3));
  const some = criticCredit(groups, contextOf({ values: three, valueAfter: 0 }), settings)[0]!;
  const all = [...some[0]!.advantages[0]!, ...some[2]!.advantages[0]!];
  expect(all.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 6);
  expect(all.reduce((sum, value) => sum + value ** 2, 0) / 5).toBeCloseTo(1, 5);
  // What the critic is trained towards is not whitened.
  expect(some[0]!.returns).toEqual(criticCredit(groups, contextOf({ values: three, valueAfter: 0 }), plain)[0]![0]!.returns);
});

test("without a critic's values there is no credit to give", () => {
  expect(() => creditOf(answerOf(3), 1, { evidence: {} })).toThrow("trajectory t: expected a critic's values, got none");
});
