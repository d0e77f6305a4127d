/** A reward model beside a verifier, and pairs from verified rollouts. */
import { expect, test } from "vitest";
import { agreement, pairsFromGroups, type JudgedAnswer } from "../../../src/loop/reward/agreement.ts";
import type { Group, Message, Scored } from "../../../src/types.ts";
import { answerOf, verdictOf } from "../../fakes/credit.ts";

const judged = (task: string, ...answers: readonly (readonly [score: number, verdict: number | string])[]): JudgedAnswer[] =>
  answers.map(([score, verdict], i) => ({ name: `${task}${i}`, task, score, verdict: verdictOf(verdict) }));

test("by hand: three right and two wrong answers, one that the verifier could not judge", () => {
  const found = agreement([...judged("a", [3, 1], [1, 1], [2, 0], [9, "no answer"]), ...judged("b", [0.5, 0], [0.6, 1])]);
  expect([found.answers, found.right]).toEqual([5, 3]);
  // Right 3, 1, 0.6; wrong 2, 0.5: (2 + 1 + 1) of 6 pairs.
  expect(found.auc).toBeCloseTo(4 / 6, 9);
  // Task a: 3 > 2, 1 < 2; task b: 0.6 > 0.5.
  expect(found.aucWithinTasks).toBeCloseTo(2 / 3, 9);
  // Above 0.55: one mistake, the wrong answer at 2.
  expect([found.accuracy, found.threshold]).toEqual([0.8, 0.55]);
  expect(found.disagreements).toEqual([
    { name: "a2", score: 2, right: false, misplaced: 2 / 3 },
    { name: "a1", score: 1, right: true, misplaced: 1 / 2 },
    { name: "b1", score: 0.6, right: true, misplaced: 1 / 2 },
  ]);
});

test("a perfect model, its opposite, and one that says the same of all", () => {
  const of = (scores: readonly number[]) => agreement(judged("a", [scores[0]!, 1], [scores[1]!, 1], [scores[2]!, 0]));
  expect(of([3, 2, 1])).toMatchObject({ auc: 1, accuracy: 1, threshold: 1.5, disagreements: [] });
  expect(of([1, 2, 3])).toMatchObject({ auc: 0, accuracy: 2 / 3 });
  expect(of([1, 1, 1])).toMatchObject({ auc: 0.5, accuracy: 2 / 3 });
  expect(agreement(judged("a", [1, 1])).auc).toBeNaN();
  expect(() => agreement(judged("a", [1, "broken"]))).toThrow("agreement: expected answers that the verifier scored, got none of 1");
});

const prompt: Message = { role: "user", content: "?" };
function groupOf(...answers: readonly (readonly [text: string, score: number | string])[]): Group {
  const members = answers.map(([content, score]): Scored => {
    return { trajectory: { ...answerOf(3), messages: [prompt, { role: "assistant", content }] }, verdict: verdictOf(score) };
  });
  return { task: { id: "q", prompt: [prompt], data: {} }, members };
}
const texts = (group: Group, options = {}) =>
  pairsFromGroups([group], options).map(({ chosen, rejected, margin }) => [chosen[0]!.content, rejected[0]!.content, margin]);

test("pairs of a group: largest difference first, each answer in as few pairs as possible, none without a difference", () => {
  const group = groupOf(["a", 1], ["b", 0.5], ["c", 0], ["d", "broken"], ["e", 1]);
  expect(texts(group, { perGroup: 2, margins: true })).toEqual([["a", "c", 1], ["e", "b", 0.5]]);
  expect(texts(group, { perGroup: 99 }).length).toBe(5);
  expect(texts(groupOf(["a", 1], ["b", 1]))).toEqual([]);
  expect(texts(groupOf(["a", 1], ["", 0], ["a", 0], ["c", 0]))).toEqual([["a", "c", undefined]]);
});
