/** Baselines, returns, whitening, penalties: each with its arithmetic. */
import { expect, test } from "vitest";
import { RewardError } from "../../../src/errors.ts";
import { batchCentred, leaveOneOut, lengthWeighted, meanScaled } from "../../../src/loop/advantage/baselines.ts";
import { broadcastCredit } from "../../../src/loop/advantage/broadcast.ts";
import { clipCovariance } from "../../../src/loop/advantage/covariance.ts";
import { batchScaledAdvantages } from "../../../src/loop/advantage/group.ts";
import { klReward, klRewards } from "../../../src/loop/advantage/kl-reward.ts";
import { overlongPenalty } from "../../../src/loop/advantage/length-penalty.ts";
import { tokenReturns } from "../../../src/loop/advantage/token-returns.ts";
import { whitened } from "../../../src/loop/advantage/whiten.ts";
import type { Credit, CreditContext, Evidence } from "../../../src/types.ts";
import { answerOf, context, memberOf, plainContext, sampled, trajectoryOf } from "../../fakes/credit.ts";

const near = (found: ArrayLike<number | null>, right: readonly (number | null)[], digits = 6): void => {
  expect(found).toHaveLength(right.length);
  right.forEach((value, i) => (value === null ? expect(found[i]).toBeNull() : expect(found[i]).toBeCloseTo(value, digits)));
};
const told = (evidence: Evidence): CreditContext => ({ ...plainContext, evidence: () => evidence });

test("leave-one-out: reward minus the mean of the others", () => {
  near(leaveOneOut([1, 0, 0, 0]), [1, -1 / 3, -1 / 3, -1 / 3]);
  near(leaveOneOut([3, 1]), [2, -2]);
  // n / (n - 1) times the centred reward: 4/3 (0.75), 4/3 (-0.25).
  near(
    leaveOneOut([1, 0, 0, 0]),
    [0.75, -0.25, -0.25, -0.25].map((value) => (value * 4) / 3),
  );
  near(leaveOneOut([1, null, 0]), [1, null, -1]);
});

test("mean-scaled: one success in four counts four times, and the sum is 0", () => {
  near(meanScaled([1, 0, 0, 0]), [3, -1, -1, -1]); // (1 - 0.25) / 0.25
  near(meanScaled([1, 1, 1, 0]), [1 / 3, 1 / 3, 1 / 3, -1]); // (1 - 0.75) / 0.75
  near(meanScaled([null, 2, 1]), [null, 1 / 3, -1 / 3]);
  const message = "maxrl: expected rewards of at least 0, got -1; shift or clip the reward, or use another algorithm";
  expect(() => meanScaled([1, -1])).toThrow(new RewardError(message));
});

test("batch-centred: one baseline for all tasks", () => {
  const found = batchCentred([
    [1, 0],
    [10, null, 9],
  ]); // mean 5
  near(found[0]!, [-4, -5]);
  near(found[1]!, [5, null, 4]);
});

test("length-weighted: long answers weigh more in the baseline", () => {
  near(lengthWeighted([1, 0], [1, 3]), [0.75, -0.25]); // baseline (1 * 1 + 3 * 0) / 4
  near(lengthWeighted([1, 0], [2, 2]), [0.5, -0.5]);
  near(lengthWeighted([1, null, 0], [3, 50, 1]), [0.25, null, -0.75]);
});

test("batch scale: centred in the group, divided by the deviation of the whole step", () => {
  // Rewards 1, 0, 10, 9: mean 5, squares 16 + 25 + 25 + 16 = 82, sample deviation sqrt(82 / 3) = 5.228129.
  const found = batchScaledAdvantages([
    [1, 0],
    [10, 9],
  ]);
  for (const group of found) near(group, [0.5 / 5.228129, -0.5 / 5.228129]);
  expect(
    batchScaledAdvantages([
      [2, 2],
      [2, 2],
    ]),
  ).toEqual([
    [0, 0],
    [0, 0],
  ]);
  near(
    batchScaledAdvantages([
      [7, 7],
      [1, 0],
    ])[0]!,
    [0, 0],
  );
});

test.each([0.1, 0.7, 1.1])("rewards that are all %d carry no signal, exactly, under every baseline", (reward) => {
  const equal = Array.from({ length: 7 }, () => reward);
  const zeros = equal.map(() => 0);
  expect(leaveOneOut(equal)).toEqual(zeros);
  expect(meanScaled(equal)).toEqual(zeros);
  expect(
    lengthWeighted(
      equal,
      equal.map((_, i) => i + 1),
    ),
  ).toEqual(zeros);
  expect(batchCentred([equal, equal])).toEqual([zeros, zeros]);
  expect(batchScaledAdvantages([equal])).toEqual([zeros]);
  const credits = equal.map((value) => broadcastCredit(answerOf(3), value));
  expect(whitened([credits])[0]!.map((credit) => [...credit!.advantages[0]!])).toEqual(equal.map(() => [0, 0, 0]));
});

test.each([leaveOneOut, meanScaled, (rewards: readonly (number | null)[]) => lengthWeighted(rewards, [3, 3, 3])])(
  "a sample left alone has nothing to be compared with: 0, and null for the others",
  (baseline) => {
    expect(baseline([null, 1, null])).toEqual([null, 0, null]);
    expect(baseline([null, null, null])).toEqual([null, null, null]);
  },
);

/** Two turns with tool output between them, then a second row (a template that rewrites history). */
const toolUse = trajectoryOf([
  { spans: [context(1, 2), sampled([3, 4], [-1, -2]), context(5, 6, 7), sampled([8], [-0.5])] },
  { spans: [context(1, 2, 9), sampled([10, 11], [-1, -1])] },
]);

test("a token's return reaches over tool output and from row to row, undiminished by context", () => {
  const [first, second] = tokenReturns(toolUse, { score: 1, gamma: 1 });
  near(first!, [1, 1, 1]);
  near(second!, [1, 1]);
  // Five sampled tokens, so the first is discounted four times: 0.5^4.
  const halved = tokenReturns(toolUse, { score: 1, gamma: 0.5 });
  near(halved[0]!, [0.0625, 0.125, 0.25]);
  near(halved[1]!, [0.5, 1]);
});

test("rewards of single tokens join what comes after them", () => {
  const rewards = [Float32Array.of(0.1, 0, -0.2), Float32Array.of(0, 0.3)];
  const [first, second] = tokenReturns(toolUse, { score: 1, gamma: 1, rewards });
  near(second!, [1.3, 1.3]);
  near(first!, [1.2, 1.1, 1.1]); // 1.3 - 0.2 at the third, + 0.1 at the first
});

test("KL in the reward is -coef (log pi - log ref), of the trainer's log-probs where they are known", () => {
  const reference = [Float32Array.of(-1.5, -2, -0.5), Float32Array.of(-2, -1)];
  near(klRewards(toolUse, told({ reference }), 0.1)![0]!, [-0.05, 0, 0]);
  expect(klReward(toolUse, told({ reference }), 0.1)).toBeCloseTo(-0.15, 6); // -0.1 (0.5 + 1)
  const trainer = [Float32Array.of(-1.5, -2, -0.5), Float32Array.of(-2, -1)];
  expect(klReward(toolUse, told({ reference, trainer }), 0.1)).toBeCloseTo(0, 6);
  expect(klReward(toolUse, plainContext, 0)).toBe(0);
  expect(() => klReward(toolUse, plainContext, 0.1)).toThrow("log-probs under the reference for the KL in the reward, got none");
});

test("whitening is over the sampled tokens of the step, not over its episodes", () => {
  // Tokens 2, -1, -1, -1: mean -0.25, squares 5.0625 + 3 * 0.5625 = 6.75, sample variance 2.25, deviation 1.5.
  const [[first, none, second]] = whitened([[broadcastCredit(answerOf(1), 2), null, broadcastCredit(answerOf(3), -1)]]) as [
    (Credit | null)[],
  ];
  near(first!.advantages[0]!, [1.5]);
  near(second!.advantages[0]!, [-0.5, -0.5, -0.5]);
  expect(none).toBeNull();
});

test("the soft penalty begins a buffer before the limit and is whole at it", () => {
  // maxTokens 64, a quarter of it: from 48 tokens on, by 1 / 16 a token.
  const of = (length: number, options = { buffer: 0.25, penalty: 1 }): number =>
    overlongPenalty(memberOf(answerOf(length), 1), plainContext, options);
  expect([10, 48, 56, 64, 70].map((length) => of(length))).toEqual([0, 0, -0.5, -1, -1]);
  expect(of(56, { buffer: 0.25, penalty: 0.2 })).toBeCloseTo(-0.1, 6);
  expect(of(64, { buffer: 0, penalty: 1 })).toBe(0);
  // Turns of 40 and 20 tokens: the limit is one turn's.
  const turns = trajectoryOf([{ spans: [context(1), sampled(Array(40).fill(3)), context(1), sampled(Array(20).fill(3))] }]);
  expect(overlongPenalty(memberOf(turns, 1), plainContext, { buffer: 0.25, penalty: 1 })).toBe(0);
});

const covariate = [
  [1, 1, 1, 1],
  [-1, -1, -1, -1],
].map((values, i) => ({
  trajectory: trajectoryOf(
    [{ spans: [context(1), sampled([3, 4, 5, 6], i === 0 ? [-1, -1, -5, -5] : [-3, -3, -3, -3])] }],
    { type: "done" },
    `t${i}`,
  ),
  advantages: [Float32Array.from(values)],
}));

test("Clip-Cov detaches a share of the tokens whose covariance is between the bounds, and always the same ones", () => {
  // Log-probs -1, -1, -5, -5 and four -3: mean -3; advantages centred already. Covariances 2, 2, -2, -2 and 0: two are eligible.
  const clip = (fraction: number, low = 1, high = 5): number[][] =>
    clipCovariance([covariate], plainContext, { fraction, low, high })[0]!.map((credit) => [...credit!.advantages[0]!]);
  expect(clip(0.25)).toEqual([
    [0, 0, 1, 1],
    [-1, -1, -1, -1],
  ]); // two of eight tokens
  const one = clip(0.125);
  expect(one[0]!.slice(0, 2).sort()).toEqual([0, 1]);
  expect(clip(0.125)).toEqual(one);
  expect(clip(0.01)).toEqual(one); // at least one
  expect(clip(1, 2.5)).toEqual([
    [1, 1, 1, 1],
    [-1, -1, -1, -1],
  ]);
  expect(clip(1, 1, 1.5)).toEqual([
    [1, 1, 1, 1],
    [-1, -1, -1, -1],
  ]);
});

test("Clip-Cov reads the trainer's log-probs where they are known", () => {
  const evidence = told({ trainer: [Float32Array.of(-3, -3, -3, -3)] });
  const found = clipCovariance([covariate], evidence, { fraction: 1, low: 1, high: 5 });
  expect([...found[0]![0]!.advantages[0]!]).toEqual([1, 1, 1, 1]);
});
