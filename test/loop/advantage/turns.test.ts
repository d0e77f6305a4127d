import { expect, test } from "vitest";
import { stateAdvantages, statesOf } from "../../../src/loop/advantage/states.ts";
import { redistributed, stepRewards } from "../../../src/loop/advantage/step-rewards.ts";
import { gae } from "../../../src/loop/advantage/gae.ts";
import {
  isTerminal, plusTurns, returnsOf, spreadOverTurns, turnGae, turnRewards, turnSpans, turnValues, valueAfterTurns,
} from "../../../src/loop/advantage/turns.ts";
import { PolicyError } from "../../../src/errors.ts";
import { rng, uniform } from "../../../src/random.ts";
import type { EpisodeEnd, TokenValues } from "../../../src/types.ts";
import { broadcastCredit } from "../../../src/loop/advantage/broadcast.ts";
import { turnsOf } from "../../fakes/turns.ts";

const rounded = (values: ArrayLike<number>): number[] => Array.from(values, (value) => Number(value.toFixed(5)));
const close = (got: ArrayLike<number>, want: readonly number[]): void => {
  expect(got.length).toBe(want.length);
  want.forEach((value, i) => expect(got[i]).toBeCloseTo(value, 5));
};

// Three turns of 2, 1 and 3 tokens; the third begins a new row.
const shape = [{ tokens: 2 }, { tokens: 1 }, { tokens: 3, newRow: true }];
const trajectory = turnsOf(shape);

test("a step is a sampled turn; its tokens share its number, in the order of the rows", () => {
  expect(turnSpans(trajectory)).toEqual([
    { row: 0, from: 0, length: 2 },
    { row: 0, from: 2, length: 1 },
    { row: 1, from: 0, length: 3 },
  ]);
  expect(spreadOverTurns(trajectory, [5, -1, 0.5]).map((row) => [...row])).toEqual([[5, 5, -1], [0.5, 0.5, 0.5]]);
  expect(() => spreadOverTurns(trajectory, [1, 2])).toThrow(
    new PolicyError("trajectory t: expected 3 numbers, one for each turn, got 2"),
  );
  const credit = plusTurns(broadcastCredit(trajectory, 2), 0.5, [1, 2, 3]);
  expect(credit.advantages.map((row) => [...row])).toEqual([[2, 2, 3], [4, 4, 4]]);
});

test("the score is the last sampled turn's reward, beside what the environment gave on the way", () => {
  expect(turnRewards(trajectory, 1)).toEqual([0, 0, 1]);
  expect(turnRewards(turnsOf([{ reward: 0.25 }, {}, { reward: -0.5 }]), 1)).toEqual([0.25, 0, 0.5]);
});

test("Monte-Carlo returns over turns", () => {
  // 1 + 0.5 (2 + 0.5 x 4) = 3; 2 + 0.5 x 4 = 4; 4
  expect(returnsOf([1, 2, 4], { gamma: 0.5, valueAfter: 0 })).toEqual([3, 4, 4]);
  // Cut: 4 + 0.5 x 8 = 8; 2 + 4 = 6; 1 + 3 = 4
  expect(returnsOf([1, 2, 4], { gamma: 0.5, valueAfter: 8 })).toEqual([4, 6, 8]);
  expect(returnsOf([], { gamma: 1, valueAfter: 3 })).toEqual([]);
});

// Values of the first token of each turn are 0.5, 0.6 and 0.7; what stands at later tokens must not be read.
const values: TokenValues = [Float32Array.of(0.5, 9, 0.6), Float32Array.of(0.7, 9, 9)];

test("the value of a turn is the value of the state in which it began", () => {
  close(turnValues(trajectory, values), [0.5, 0.6, 0.7]);
  expect(() => turnValues(trajectory, [values[0]!])).toThrow(/turn 2: expected a value of its first token/);
});

test("GAE over turns: an end is worth 0, a cut is worth what the critic says", () => {
  const ended = turnGae(trajectory, { score: 1, evidence: { values }, gamma: 1, lambda: 0.95 });
  // d = [0.1, 0.1, 0.3]; A_3 = 0.3, A_2 = 0.1 + 0.95 x 0.3 = 0.385, A_1 = 0.1 + 0.95 x 0.385 = 0.46575
  expect(ended.advantages.map(rounded)).toEqual([[0.46575, 0.46575, 0.385], [0.3, 0.3, 0.3]]);
  expect(ended.returns.map(rounded)).toEqual([[0.96575, 0.96575, 0.985], [1, 1, 1]]);
  expect(ended.values.map(rounded)).toEqual([[0.5, 0.5, 0.6], [0.7, 0.7, 0.7]]);

  for (const type of ["length", "turnLimit"] as const) {
    const cut = turnGae(turnsOf(shape, { type }), { score: 0, evidence: { values, valueAfter: 0.8 }, gamma: 1, lambda: 0.95 });
    // d = [0.1, 0.1, 0.1]; A = 0.1, 0.195, 0.28525. As an end it would be -0.7, -0.565, -0.43675.
    expect(cut.advantages.map(rounded)).toEqual([[0.28525, 0.28525, 0.195], [0.1, 0.1, 0.1]]);
  }
});

test("a cut episode without a value of what follows is refused, an ended one ignores it", () => {
  const cut = turnsOf(shape, { type: "turnLimit" });
  const want = "the value of the state after its last turn (it was cut: turnLimit)";
  const message = `trajectory t: expected ${want}, got none; a cut episode is not worth 0`;
  expect(() => turnGae(cut, { score: 0, evidence: { values }, gamma: 1, lambda: 1 })).toThrow(new PolicyError(message));
  expect(() => turnGae(cut, { score: 0, evidence: {}, gamma: 1, lambda: 1 })).toThrow(/expected the critic's values, got none/);
  expect(valueAfterTurns(trajectory, { valueAfter: 5 })).toBe(0);
  const ends: EpisodeEnd[] = [{ type: "done" }, { type: "length" }, { type: "timeout" }, { type: "error", boundary: "tool", message: "" }];
  expect(ends.map((end) => isTerminal(turnsOf(shape, end)))).toEqual([true, false, false, false]);
});

test("lambda 1 is Monte-Carlo, lambda 0 one step; gamma counts turns and not tokens", () => {
  const [rewards, state, valueAfter] = [[0.3, -1, 2, 0.5], [0.2, 0.9, -0.4, 1.1], 0.7];
  for (const gamma of [1, 0.9]) {
    const monteCarlo = returnsOf(rewards, { gamma, valueAfter });
    const { advantages, returns } = gae({ rewards, values: state, valueAfter, gamma, lambda: 1 });
    close(returns, monteCarlo);
    close(advantages, monteCarlo.map((g, t) => g - state[t]!));
    const one = gae({ rewards, values: state, valueAfter, gamma, lambda: 0 });
    close(one.returns, rewards.map((reward, t) => reward + gamma * (state[t + 1] ?? valueAfter)));
  }
  const long = turnsOf([{ tokens: 40 }, { tokens: 40 }]);
  const nothing = long.rows.map(() => new Float32Array(80));
  const { returns } = turnGae(long, { score: 1, evidence: { values: nothing }, gamma: 0.5, lambda: 1 });
  expect([returns[0]![0], returns[0]![39], returns[0]![40]]).toEqual([0.5, 0.5, 1]);
});

test("TD(lambda) targets: the lambda-weighted mean of n-step returns", () => {
  // gamma 1, lambda 0.5, r = [0, 0, 1], V = [0.5, 0.6, 0.7], terminal: n-step returns of the first turn are 0.6, 0.7, 1,
  // with weights 0.5, 0.25 and the rest 0.25: 0.3 + 0.175 + 0.25 = 0.725. Of the second: 0.5 x 0.7 + 0.5 x 1 = 0.85.
  close(gae({ rewards: [0, 0, 1], values: [0.5, 0.6, 0.7], valueAfter: 0, gamma: 1, lambda: 0.5 }).returns, [0.725, 0.85, 1]);
});

test("states are named by the last observation, or by all that was said", () => {
  const one = turnsOf([{ says: "x", reply: "door 2" }, { says: "y", reply: "door 2" }, {}]);
  const two = turnsOf([{ says: "y", reply: "door 2" }, {}]);
  const [first, second, third] = statesOf(one, "observation");
  expect(second).toBe(third);
  expect(first).not.toBe(second);
  expect(statesOf(two, "observation")).toEqual([first, second]);
  const [mine, other] = [statesOf(one, "history"), statesOf(two, "history")];
  expect(new Set(mine).size).toBe(3);
  expect([other[0] === mine[0], other[1] === mine[1]]).toEqual([true, false]);
});

test("the ids of calls tell no two states apart, their arguments do", () => {
  const withCall = (id: string, x: number) => {
    const base = turnsOf([{ reply: "r" }, {}]);
    const call = { id, name: "f", arguments: { x } };
    const turns = base.turns.map((turn, t) => (t === 0 ? { ...turn, message: { ...turn.message, toolCalls: [call] } } : turn));
    return statesOf({ ...base, turns }, "history");
  };
  expect(withCall("call_1", 3)).toEqual(withCall("call_2", 3));
  expect(withCall("call_1", 3)).not.toEqual(withCall("call_1", 4));
});

test("steps of one state are compared with each other, also two of one sample", () => {
  const samples = [
    { states_T: ["a", "b", "b"], numbers_T: [1, 4, 1] },
    { states_T: ["a", "c"], numbers_T: [0, 7] },
    { states_T: ["b"], numbers_T: [1] },
    { states_T: [], numbers_T: [] },
  ];
  // a: 1, 0 -> 0.5, -0.5. b: 4, 1, 1 -> mean 2. c is alone.
  expect(stateAdvantages(samples, "none")).toEqual([[0.5, 2, -1], [-0.5, 0], [-1], []]);
  // b: squares 4 + 1 + 1 = 6, sample deviation sqrt(3), population deviation sqrt(2).
  expect(stateAdvantages(samples, "group-sample-std").map(rounded)).toEqual([[0.70711, 1.1547, -0.57735], [-0.70711, 0], [-0.57735], []]);
  expect(stateAdvantages(samples, "group-population-std").map(rounded)).toEqual([[1, 1.41421, -0.70711], [-1, 0], [-0.70711], []]);
  // Equal numbers whose computed deviation is not 0.
  const equal = Array.from({ length: 7 }, () => ({ states_T: ["a"], numbers_T: [0.1] }));
  expect(stateAdvantages(equal, "group-population-std")).toEqual(equal.map(() => [0]));
});

test("step rewards of scores: themselves, their differences, the return redistributed", () => {
  const scores = [0.25, 0.75, 0.5];
  expect(stepRewards(scores, "score", { before: 9, score: 1 })).toEqual([0.25, 0.75, 0.5]);
  expect(stepRewards(scores, "difference", { before: 0.125, score: 1 })).toEqual([0.125, 0.5, -0.25]);
  // Increments 0.25, 0.5, -0.25; the last prediction misses 1 - 0.5, a sixth for each.
  close(stepRewards(scores, "redistributed", { before: 9, score: 1 }), [0.25 + 1 / 6, 0.5 + 1 / 6, -0.25 + 1 / 6]);
});

test("differences telescope: what lies between does not pay", () => {
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  for (const scores of [[0.5, 1], [0.5, 0.25, 0.75, 0.25, 1], [1]]) {
    expect(sum(stepRewards(scores, "difference", { before: 0.25, score: 0 }))).toBe(0.75);
  }
});

test("a redistributed return adds up to the return", () => {
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  for (let i = 0; i < 2_000; i++) {
    const predictions = Array.from({ length: 1 + (i % 30) }, (_, t) => uniform(rng(5, i), t));
    for (const total of [0, 1]) expect(sum(redistributed(total, predictions))).toBe(total);
    const wild = predictions.map((value, t) => (value - 0.5) * 10 ** ((t % 7) - 3));
    expect(Math.abs(sum(redistributed(-4e-4, wild)) + 4e-4)).toBeLessThan(1e-11);
  }
  // A right prediction is passed on unchanged, and one that says nothing spreads the return evenly.
  expect(redistributed(1, [0, 0.5, 1])).toEqual([0, 0.5, 0.5]);
  expect(redistributed(1, [0, 0, 0, 0])).toEqual([0.25, 0.25, 0.25, 0.25]);
  expect(redistributed(1, [])).toEqual([]);
});
