import { expect, test } from "vitest";
import { gigpo } from "../../src/algo/gigpo.ts";
import { grpo } from "../../src/algo/grpo.ts";
import { ConfigError } from "../../src/errors.ts";
import type { EpisodeEnd, Group, Scored } from "../../src/types.ts";
import { QUESTION, plainContext } from "../fakes/credit.ts";
import { turnsOf, walk } from "../fakes/turns.ts";
import { memberOf } from "../fakes/credit.ts";

const group = (...members: readonly Scored[]): Group => ({ task: QUESTION, members });
const advantages = (algorithm: ReturnType<typeof gigpo>, ...members: readonly Scored[]): (number[] | null)[] =>
  algorithm
    .credit([group(...members)], plainContext)[0]!
    .map((credit) => credit && [...credit.advantages[0]!].map((value) => Number(value.toFixed(5))));

test("episode beside its group plus turn beside its state, by hand", () => {
  // Returns with gamma 0.5: [0.25, 0.5, 1] for prompt, s, t; [0, 0] for prompt, s; [0.5, 1] for prompt, t.
  const members = [walk(1, ["s", "t"]), walk(0, ["s"]), walk(1, ["t"])];
  // prompt: mean 0.25 -> 0, -0.25, 0.25. s: mean 0.25 -> 0.25, -0.25. t: both 1 -> 0. Episodes: mean 2/3 -> 1/3, -2/3, 1/3.
  expect(advantages(gigpo({ gamma: 0.5, scale: "none" }), ...members)).toEqual([
    [0.33333, 0.58333, 0.33333],
    [-0.91667, -0.91667],
    [0.58333, 0.33333],
  ]);
  // Twice the weight of turns.
  expect(advantages(gigpo({ gamma: 0.5, scale: "none", stepWeight: 2 }), ...members)[0]).toEqual([0.33333, 0.83333, 0.33333]);
});

test("each part is scaled by its own group's deviation", () => {
  // Episodes 1, 0: deviation sqrt(0.5) -> +-0.70711. Turns in s: 0.5 and 0 -> +-0.70711. The turn in t is alone. gamma 0.5.
  expect(advantages(gigpo({ gamma: 0.5 }), walk(1, ["s", "t"]), walk(0, ["s"]))).toEqual([
    [1.41421, 1.41421, 0.70711],
    [-1.41421, -1.41421],
  ]);
});

test("a detour inside a success is told from the straight way, which GRPO cannot do", () => {
  // Both succeed; the second sees s twice. With gamma 0.5 the returns in s are 1 for the straight way, 0.5 and 1 for the other.
  const members = [walk(1, ["s"]), walk(1, ["s", "s"])];
  expect(advantages(grpo({ scale: "none" }), ...members)).toEqual([[0, 0], [0, 0, 0]]);
  // Prompt: 0.5 and 0.25. s: 1, 0.5, 1 with mean 5/6.
  expect(advantages(gigpo({ gamma: 0.5, scale: "none" }), ...members)).toEqual([[0.125, 0.16667], [-0.125, -0.33333, 0.16667]]);
  // Without a discount both are worth the same.
  expect(advantages(gigpo({ gamma: 1, scale: "none" }), ...members)).toEqual([[0, 0], [0, 0, 0]]);
});

test("limits: weight 0 is GRPO, equal outcomes without a discount train nothing, states by history compare true twins alone", () => {
  const members = [walk(1, ["s", "t"]), walk(0, ["s"]), walk(0, ["u", "t"])];
  expect(advantages(gigpo({ stepWeight: 0 }), ...members)).toEqual(advantages(grpo(), ...members));
  expect(advantages(gigpo({ gamma: 1 }), walk(1, ["s"]), walk(1, ["s"]))).toEqual([[0, 0], [0, 0]]);
  // By observation the third turn of the first and third are one state (returns 1 and 0); by history they are not.
  const [first] = advantages(gigpo({ gamma: 1, scale: "none" }), ...members);
  const [byHistory] = advantages(gigpo({ gamma: 1, scale: "none", state: "history" }), ...members);
  expect(first!.map((value, t) => Number((value - byHistory![t]!).toFixed(5)))).toEqual([0, 0, 0.5]);
});

test("all tokens of a turn share its advantage, over rows", () => {
  const long = memberOf(turnsOf([{ tokens: 3, reply: "s" }, { tokens: 2, newRow: true }]), 1);
  const credits = gigpo({ gamma: 0.5, scale: "none" }).credit([group(long, walk(0, ["s"]))], plainContext)[0]!;
  // Prompt: 0.5 and 0 -> 0.25; s: 1 and 0 -> 0.5; episode 0.5.
  expect(credits[0]!.advantages.map((row) => [...row])).toEqual([[0.75, 0.75, 0.75], [1, 1]]);
});

test("a cut episode is no end: its turns are compared with none, its outcome still counts", () => {
  const limit: EpisodeEnd = { type: "turnLimit" };
  const cut = walk(0, ["s"], limit);
  // Without the cut one, two turns in s remain, with returns 1 and 0.
  expect(advantages(gigpo({ gamma: 1, scale: "none" }), walk(1, ["s"]), walk(0, ["s"]), cut)).toEqual([
    [1.16667, 1.16667],
    [-0.83333, -0.83333],
    [-0.33333, -0.33333],
  ]);
  // Treated as ended with 0 it would have pulled the mean of s down to 1/3.
});

test("an unscored sample trains nothing and stands in no state", () => {
  expect(advantages(gigpo({ gamma: 1, scale: "none" }), walk(1, ["s"]), walk(0, ["s"]), walk("no verdict", ["s"]))).toEqual([
    [1, 1],
    [-1, -1],
    null,
  ]);
});

test("settings that contradict each other or are out of range are refused", () => {
  const message = "algo.stepWeight and algo.gamma: gamma does nothing while stepWeight is 0; raise it, or leave gamma out";
  expect(() => gigpo({ stepWeight: 0, gamma: 0.9 })).toThrow(new ConfigError(message));
  expect(() => gigpo({ gamma: 1.1 })).toThrow(/algo\.gamma: expected a number of at least 0 and at most 1, got 1\.1/);
  expect(() => gigpo({ groupSize: 1 })).toThrow(/algo\.groupSize/);
  expect(gigpo()).toMatchObject({ name: "gigpo", paper: "arXiv:2505.10978", groupSize: 8, settings: { gamma: 0.95, stepWeight: 1 } });
  expect(gigpo({ klCoef: 0.1 })).toMatchObject({ needs: ["reference"], keepZero: true });
});
