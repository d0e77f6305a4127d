/** What each algorithm gives its tokens: against PyTorch, by hand, and where there is nothing to learn. */
import { expect, test } from "vitest";
import * as algo from "../../src/algo/index.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import type { Algorithm, CreditContext, Group, Scored } from "../../src/types.ts";
import { answerOf, context, groupOf, memberOf, plainContext, QUESTION, sampled, trajectoryOf } from "../fakes/credit.ts";
import { goldenJson } from "../fakes/golden.ts";

const withoutKl = { klRewardCoef: 0 };
/** Every algorithm without a critic, its KL in the reward turned off. */
const all: readonly Algorithm[] = [
  algo.cispo(),
  algo.dapo(),
  algo.dppo(),
  algo.drGrpo(),
  algo.grpo(),
  algo.gspo(),
  algo.maxrl(),
  algo.reinforce(withoutKl),
  algo.reinforcePlusPlus(withoutKl),
  algo.reinforcePlusPlusBaseline(),
  algo.remax(withoutKl),
  algo.rloo(withoutKl),
];
const byName = all.map((algorithm) => [algorithm.name, algorithm] as const);

/** The advantage of each member's first token, null where there is no credit. */
function firsts(algorithm: Algorithm, groups: readonly Group[], told: CreditContext = plainContext): (number | null)[][] {
  return algorithm.credit(groups, told).map((group) => group.map((credit) => credit?.advantages[0]![0] ?? null));
}
const near = (found: readonly (number | null)[], right: readonly (number | null)[]): void => {
  expect(found).toHaveLength(right.length);
  right.forEach((value, i) => (value === null ? expect(found[i]).toBeNull() : expect(found[i]).toBeCloseTo(value, 5)));
};
const withGreedy = (group: Group, score: number | string): Group => ({ ...group, greedy: memberOf(answerOf(3), score) });

interface Golden {
  readonly rewards: readonly (readonly number[])[];
  readonly scored: readonly (readonly boolean[])[];
  readonly lengths: readonly (readonly number[])[];
  readonly gamma: number;
  readonly members: Readonly<Record<string, readonly number[]>>;
  readonly tokens: Readonly<Record<string, readonly number[]>>;
}
const golden = goldenJson<Golden>("advantages.json");
const goldenGroups = golden.rewards.map((rewards, p): Group => {
  const members = rewards.map((reward, i) => memberOf(answerOf(golden.lengths[p]![i]!), golden.scored[p]![i]! ? reward : "no verdict"));
  return { task: QUESTION, members };
});

test.each<[string, Algorithm]>([
  ["centred", algo.drGrpo()],
  ["centred", algo.reinforce({ baseline: "group-mean" })],
  ["groupSampleStd", algo.grpo()],
  ["groupSampleStd", algo.gspo()],
  ["groupSampleStd", algo.cispo()],
  ["groupSampleStd", algo.dppo()],
  ["groupSampleStd", algo.dapo({ overlongBuffer: 0 })],
  ["batchSampleStd", algo.grpo({ scale: "batch-sample-std" })],
  ["leaveOneOut", algo.rloo(withoutKl)],
  ["meanScaled", algo.maxrl()],
  ["batchCentred", algo.reinforce()],
  ["lengthWeighted", algo.reinforce({ baseline: "group-length-weighted" })],
])("PyTorch: %s, by $name", (name, algorithm) => {
  const found = firsts(algorithm, goldenGroups).flat();
  expect(found[5]).toBeNull();
  near(
    found.filter((value) => value !== null),
    golden.members[name]!,
  );
});

test.each<[string, Algorithm]>([
  ["reinforcePlusPlus", algo.reinforcePlusPlus({ klRewardCoef: 0, gamma: golden.gamma })],
  ["reinforcePlusPlusBaseline", algo.reinforcePlusPlusBaseline()],
])("PyTorch: tokens of %s", (name, algorithm) => {
  const credits = algorithm.credit(goldenGroups, plainContext).flat();
  near(
    credits.flatMap((credit) => (credit === null ? [] : [...credit.advantages[0]!])),
    golden.tokens[name]!,
  );
});

/** Rewards [1, 0] and [10, 9], three tokens each. */
const twoGroups = [groupOf(1, 0), groupOf(10, 9)].map((group) => withGreedy(group, 0));
const s = 0.7071068; // 0.5 / sqrt(0.5)
const r = 4.7290207; // tokens 1, 0, 10, 9, thrice each: mean 5, squares 3 * 82, sqrt(246 / 11)
const b = 0.522233; // tokens +-0.5: squares 12 / 4, sqrt(3 / 11)

test.each<[string, readonly number[]]>([
  ["cispo", [s, -s, s, -s]],
  ["dapo", [s, -s, s, -s]],
  ["dppo", [s, -s, s, -s]],
  ["dr-grpo", [0.5, -0.5, 0.5, -0.5]],
  ["grpo", [s, -s, s, -s]],
  ["gspo", [s, -s, s, -s]],
  ["maxrl", [1, -1, 0.5 / 9.5, -0.5 / 9.5]],
  ["reinforce", [-4, -5, 5, 4]],
  ["reinforce-plus-plus", [-4 / r, -5 / r, 5 / r, 4 / r]],
  ["reinforce-plus-plus-baseline", [0.5 / b, -0.5 / b, 0.5 / b, -0.5 / b]],
  ["remax", [1, 0, 10, 9]],
  ["rloo", [1, -1, 1, -1]],
])("%s: groups [1, 0] and [10, 9], each baseline the one that it names", (name, right) => {
  near(
    firsts(
      all.find((algorithm) => algorithm.name === name)!,
      twoGroups,
    ).flat(),
    right,
  );
});

const options = { maxLength: 8, skipZero: true } as const;

test.each(byName)("%s: equal rewards give no batch, so no weight changes", (_, algorithm) => {
  for (const reward of [0.1, 0.7, 1]) {
    const groups = [1, 2].map(() => withGreedy(groupOf(reward, reward, reward, reward, reward, reward, reward), reward));
    const credits = algorithm.credit(groups, plainContext);
    expect(credits.flat().every((credit) => credit!.advantages[0]!.every((value) => value === 0))).toBe(true);
    expect(buildBatch(credits, { ...algorithm, ...options }).batch).toBeNull();
  }
});

test.each(byName)("%s: of four samples one was scored: no NaN, and the others have no credit", (_, algorithm) => {
  const group = withGreedy(groupOf("failed", 1, "failed", "failed"), 1);
  expect(firsts(algorithm, [group])).toEqual([[null, 0, null, null]]);
  expect(firsts(algorithm, [groupOf("a", "b")])).toEqual([[null, null]]);
});

test("remax: a task whose greedy answer was not scored teaches nothing; the greedy answer itself is never trained", () => {
  const remax = algo.remax();
  expect(remax.needs).toContain("greedy");
  expect(firsts(remax, [withGreedy(groupOf(1, 0), "no verdict"), groupOf(1)])).toEqual([[null, null], [null]]);
  expect(firsts(remax, [withGreedy(groupOf(1, 0.25), 0.5)])).toEqual([[0.5, -0.25]]);
});

test("reinforce-plus-plus: the return of a late answer reaches the turn before the tool output", () => {
  const called = (score: number): Scored =>
    memberOf(trajectoryOf([{ spans: [context(1, 2), sampled([3, 4]), context(5, 6, 7), sampled([8])] }]), score);
  const group: Group = { task: QUESTION, members: [called(1), called(0)] };
  const [good, bad] = algo.reinforcePlusPlus({ klRewardCoef: 0, gamma: 0.5 }).credit([group], plainContext)[0]!;
  // Returns 0.25, 0.5, 1 and 0, 0, 0: mean 1.75 / 6, squares 1.3125 - 6 mean^2 = 0.802083, deviation sqrt(0.802083 / 5) = 0.400521.
  near(
    [...good!.advantages[0]!],
    [-0.0416667, 0.2083333, 0.7083333].map((value) => value / 0.400521),
  );
  near([...bad!.advantages[0]!], Array(3).fill(-0.2916667 / 0.400521));
});

/** Policy log-prob -1 and reference -2 at each of three tokens: k1 is 1 each. */
const drifted: CreditContext = { ...plainContext, evidence: () => ({ reference: [Float32Array.of(-2, -2, -2)] }) };

test("KL in the reward costs where the policy is surer than the reference; of single tokens where returns are", () => {
  const only = [groupOf(1, 0)].map((group) => withGreedy(group, 0));
  // Rewards 1 - 0.3 and 0 - 0.3: centred the same; with one of them at the reference it shows.
  const told: CreditContext = {
    ...plainContext,
    evidence: (of) => ({ reference: [Float32Array.from({ length: 3 }, () => (of === only[0]!.members[0]!.trajectory ? -2 : -1))] }),
  };
  near(firsts(algo.rloo({ klRewardCoef: 0.1 }), only, told).flat(), [0.7, -0.7]);
  near(firsts(algo.reinforce({ klRewardCoef: 0.1 }), only, told).flat(), [0.35, -0.35]);
  const [credit] = algo.remax({ klRewardCoef: 0.1 }).credit(only, drifted)[0]!;
  near([...credit!.advantages[0]!], [0.7, 0.8, 0.9]);
  const plusPlus = algo.reinforcePlusPlus({ klRewardCoef: 0.1 }).credit(only, drifted)[0]!;
  // Returns 0.7, 0.8, 0.9 and -0.3, -0.2, -0.1: mean 0.3, squares 1.54, deviation sqrt(1.54 / 5).
  near(
    [...plusPlus[0]!.advantages[0]!],
    [0.4, 0.5, 0.6].map((value) => value / Math.sqrt(0.308)),
  );
  for (const algorithm of [algo.rloo(), algo.reinforcePlusPlus(), algo.remax({ klRewardCoef: 0.1 })])
    expect(algorithm.needs).toContain("reference");
});

test("dapo: near the limit reward is lost, and a group that differs by that alone has a signal", () => {
  const group: Group = { task: QUESTION, members: [memberOf(answerOf(64), 1), memberOf(answerOf(10), 1)] };
  near(firsts(algo.dapo(), [group]).flat(), [-s, s]);
  expect(firsts(algo.dapo({ overlongBuffer: 0 }), [group])).toEqual([[0, 0]]);
  expect(algo.dapo()).toMatchObject({ resampleRounds: 10, groupSize: 16, reduction: "token-mean" });
});
