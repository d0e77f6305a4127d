import { expect, test } from "vitest";
import { turnPpo } from "../../src/algo/turn-ppo.ts";
import type { CreditContext, EpisodeEnd } from "../../src/types.ts";
import { QUESTION, memberOf, plainContext } from "../fakes/credit.ts";
import { turnsOf } from "../fakes/turns.ts";

/** Two turns of 2 and 1 tokens that begin at values 0.5 and 0.75; after them 0.25. */
const context: CreditContext = {
  ...plainContext,
  evidence: () => ({ values: [Float32Array.of(0.5, 9, 0.75)], valueAfter: 0.25 }),
};
const member = (score: number | string, end: EpisodeEnd = { type: "done" }) =>
  memberOf(turnsOf([{ tokens: 2 }, { tokens: 1 }], end), score);
const credit = (options: Parameters<typeof turnPpo>[0], ...members: ReturnType<typeof member>[]) =>
  turnPpo({ whitenAdvantages: false, ...options }).credit([{ task: QUESTION, members }], context)[0]!;
const list = (rows: readonly Float32Array[] | undefined): number[] => [...rows![0]!];

test("GAE over turns, shared by the tokens of a turn; the critic is trained towards the turns' returns", () => {
  // d = [0.5 x 0.75 - 0.5, 1 - 0.75] = [-0.125, 0.25]; A_1 = -0.125 + 0.5 x 0.5 x 0.25 = -0.0625. Returns 0.4375 and 1.
  const [own] = credit({ gamma: 0.5, lambda: 0.5 }, member(1));
  expect(list(own!.advantages)).toEqual([-0.0625, -0.0625, 0.25]);
  expect(list(own!.returns)).toEqual([0.4375, 0.4375, 1]);
  expect(list(own!.values)).toEqual([0.5, 0.5, 0.75]);
});

test("a cut episode is worth what the critic says, and not its score", () => {
  // d_2 = 0 + 0.25 - 0.75 = -0.5, d_1 = 0.25; lambda 1: A_1 = -0.25. With the score it would count the end twice.
  const [cut] = credit({ gamma: 1, lambda: 1 }, member(1, { type: "turnLimit" }));
  expect(list(cut!.advantages)).toEqual([-0.25, -0.25, -0.5]);
});

test("advantages are whitened over the step's tokens; an unscored sample has none", () => {
  const [one, none, other] = credit({ whitenAdvantages: true, gamma: 1, lambda: 1 }, member(1), member("broken"), member(0));
  expect(none).toBeNull();
  const all = [...list(one!.advantages), ...list(other!.advantages)];
  expect(all.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 5);
  // Before: 0.5, 0.5, 0.25 and -0.5, -0.5, -0.75: mean -1/12, squares 1.625 - 6/144 = 1.58333, over 5.
  expect(all[0]).toBeCloseTo((0.5 + 1 / 12) / Math.sqrt(1.58333 / 5), 4);
});

test("the critic and the discounts are settings; what contradicts itself is refused", () => {
  const made = turnPpo({ criticLearningRate: 1e-3, criticWarmupSteps: 3, criticEpochsPerBatch: 2 });
  expect(made.critic).toMatchObject({ learningRate: 1e-3, warmupSteps: 3, epochsPerBatch: 2 });
  expect(made.settings).toMatchObject({ gamma: 0.99, lambda: 0.9 });
  expect(() => turnPpo({ gamma: 0 })).toThrow(/algo\.gamma: expected a number above 0 and at most 1, got 0/);
  expect(() => turnPpo({ klEstimator: "k2" })).toThrow(/algo\.klEstimator and algo\.klCoef/);
});
