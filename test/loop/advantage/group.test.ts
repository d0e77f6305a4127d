import { expect, test } from "vitest";
import { grpo } from "../../../src/algo/grpo.ts";
import { ConfigError } from "../../../src/errors.ts";
import { groupAdvantages, zeroVariance, type GroupScale } from "../../../src/loop/advantage/group.ts";
import { buildBatch } from "../../../src/loop/batch/rows.ts";
import { signalOf } from "../../../src/train/signal.ts";
import { groupOf, plainContext } from "../../fakes/credit.ts";

const round = (values: readonly (number | null)[]): (number | null)[] =>
  values.map((value) => (value === null ? null : Number(value.toFixed(6))));
const options = { reduction: "token-mean", maskTruncated: false, maxLength: 8, skipZero: true } as const;

test.each([
  [0.1, 7],
  [0.7, 8],
  [1.1, 6],
])("%d, %d times over, carries no signal although its computed deviation may not be 0", (score, count) => {
  const scores = Array.from({ length: count }, () => score);
  for (const scale of ["none", "group-sample-std", "group-population-std"] as const) {
    expect(groupAdvantages(scores, scale)).toEqual(scores.map(() => 0));
  }
  expect(zeroVariance(scores)).toBe(true);
  expect(signalOf([groupOf(...scores), groupOf(0, 1)]).fracZeroStd).toBe(0.5);
});

test("centred within the group, never over the batch", () => {
  expect([[1, 0], [10, 9]].flatMap((scores) => groupAdvantages(scores, "none"))).toEqual([0.5, -0.5, 0.5, -0.5]);
});

test.each<[GroupScale, number[]]>([
  ["none", [0.75, -0.25, -0.25, -0.25]],
  ["group-sample-std", [1.5, -0.5, -0.5, -0.5]],
  ["group-population-std", [1.732051, -0.57735, -0.57735, -0.57735]],
])("scale %s is what its name says", (scale, right) => {
  expect(round(groupAdvantages([1, 0, 0, 0], scale))).toEqual(right);
  expect(grpo({ scale }).settings).toMatchObject({ scale });
});

test("a group of which one member is left has no baseline: advantage 0, no NaN, nothing trained, counted", () => {
  const group = groupOf(1, "failed", "failed", "failed");
  const credits = grpo({ groupSize: 4 }).credit([group], plainContext);
  expect(credits[0]!.map((credit) => (credit === null ? null : [...credit.advantages[0]!]))).toEqual([[0, 0, 0], null, null, null]);
  expect(buildBatch(credits, options)).toMatchObject({ batch: null, tokens: 3, completions: 1 });
  expect(signalOf([group])).toMatchObject({ fracZeroStd: 1, unscorable: 0.75, reward: 1 });
  expect(groupAdvantages([null, null], "group-sample-std")).toEqual([null, null]);
  expect(signalOf([groupOf("a", "b")]).reward).toBeNaN();
});

test("samples without a group have signal where their rewards differ from task to task, or from the greedy answer", () => {
  const [one, zero] = [groupOf(1), groupOf(0)];
  expect(signalOf([one, zero]).fracZeroStd).toBe(0);
  expect(signalOf([one, groupOf(1)]).fracZeroStd).toBe(1);
  expect(signalOf([{ ...one, greedy: zero.members[0]! }, { ...one, greedy: one.members[0]! }]).fracZeroStd).toBe(0.5);
});

test("groups of one are refused before anything is sampled", () => {
  const range = "an integer of at least 2 and at most 4096";
  const message = `algo.groupSize: expected ${range}, got 1; samples of one task; group baseline needs >= 2 samples`;
  expect(() => grpo({ groupSize: 1 })).toThrow(new ConfigError(message));
});

test("a member that could not be graded enters no mean and trains nothing", () => {
  const group = groupOf(1, "no verdict", 0);
  expect(groupAdvantages([1, null, 0], "none")).toEqual([0.5, null, -0.5]);
  const credits = grpo({ scale: "none" }).credit([group], plainContext);
  const { batch, tokens, completions } = buildBatch(credits, options);
  expect([tokens, completions]).toEqual([6, 2]);
  expect(batch!.units[0]!.rows.map(({ fields }) => [...fields["advantage"]!])).toEqual([[0.5, 0.5, 0.5], [-0.5, -0.5, -0.5]]);
  const { unscorable, reward } = signalOf([group]);
  expect([unscorable, reward]).toEqual([1 / 3, 0.5]);
});

test("limits: advantages sum to 0, do not change with a shift of all rewards, and scaled ones not with their unit", () => {
  const scores = [0.3, 1.7, -2, 0.4, 0.9];
  for (const scale of ["none", "group-sample-std", "group-population-std"] as const) {
    const advantages = groupAdvantages(scores, scale);
    expect(advantages.reduce((sum: number, a) => sum + a!, 0)).toBeCloseTo(0, 12);
    expect(round(groupAdvantages(scores.map((x) => x + 1000), scale))).toEqual(round(advantages));
    if (scale !== "none") expect(round(groupAdvantages(scores.map((x) => x * 1e-3), scale))).toEqual(round(advantages));
  }
  // Two samples: the deviation says nothing but which is better.
  expect(round(groupAdvantages([5, 4], "group-population-std"))).toEqual([1, -1]);
  expect(round(groupAdvantages([5, 4], "group-sample-std"))).toEqual([0.707107, -0.707107]);
});
