import { expect, test } from "vitest";
import { processGrpo } from "../../src/algo/process-grpo.ts";
import { ConfigError, PolicyError } from "../../src/errors.ts";
import type { CreditContext, Scored } from "../../src/types.ts";
import { QUESTION, plainContext } from "../fakes/credit.ts";
import { walk } from "../fakes/turns.ts";

/** A context in which the i-th sample has the i-th scores. */
function told(members: readonly Scored[], scores: readonly (readonly number[])[]): CreditContext {
  const byTrajectory = new Map(members.map(({ trajectory }, i) => [trajectory, scores[i]!]));
  return { ...plainContext, evidence: (trajectory) => ({ turnScores: byTrajectory.get(trajectory)! }) };
}

function advantages(options: Parameters<typeof processGrpo>[0], members: readonly Scored[], scores: readonly (readonly number[])[]) {
  const credits = processGrpo(options).credit([{ task: QUESTION, members }], told(members, scores))[0]!;
  return credits.map((credit) => credit && [...credit.advantages[0]!].map((value) => Number(value.toFixed(5))));
}

const members = [walk(1, ["s", "t"]), walk(0, ["s"])];
const scores = [[0.5, 0.75, 1], [0.5, 0]];

test("the paper's: scores normalised over all steps of the group, and summed from the turn on", () => {
  // Mean 2.75 / 5 = 0.55; deviations -0.05, 0.2, 0.45, -0.05, -0.55; squares 0.55, sample deviation sqrt(0.1375) = 0.37081.
  // Normalised -0.13484, 0.53936, 1.21356 and -0.13484, -1.48324.
  expect(advantages({}, members, scores)).toEqual([[1.61808, 1.75292, 1.21356], [-1.61808, -1.48324]]);
  expect(advantages({ scale: "none" }, members, scores)).toEqual([[0.6, 0.65, 0.45], [-0.6, -0.55]]);
  // gamma 0.5: 0.2 + 0.5 x 0.45 = 0.425; -0.05 + 0.2125 = 0.1625. -0.05 - 0.275 = -0.325.
  expect(advantages({ scale: "none", gamma: 0.5 }, members, scores)).toEqual([[0.1625, 0.425, 0.45], [-0.325, -0.55]]);
});

test("differences: what a turn changed, compared with all steps, those of its turn, or of its state", () => {
  // The state before is the mean first score, 0.5: differences 0, 0.25, 0.25 and 0, -0.5; gamma 0 takes each alone.
  const alone = { stepReward: "difference", gamma: 0, scale: "none" } as const;
  expect(advantages(alone, members, scores)).toEqual([[0, 0.25, 0.25], [0, -0.5]]);
  // Turn 2: 0.25 and -0.5, mean -0.125. Turn 3 is alone. s is turn 2 here, t is alone.
  for (const baseline of ["turn", "state"] as const) {
    expect(advantages({ ...alone, baseline }, members, scores)).toEqual([[0, 0.375, 0], [0, -0.375]]);
  }
});

test("differences with gamma 1 are the last score less the one before the turn", () => {
  const got = advantages({ stepReward: "difference", scale: "none", baseline: "group" }, members, scores);
  // The mean difference is 0: 1 - 0.5, 1 - 0.5, 1 - 0.75 and 0 - 0.5, 0 - 0.5.
  expect(got).toEqual([[0.5, 0.5, 0.25], [-0.5, -0.5]]);
});

test("redistributed: the outcome arrives where the scores say that it was made", () => {
  const told = [[0, 1, 1], [0, 0]];
  // Rewards 0, 1, 0 and 0, 0: mean 0.2.
  expect(advantages({ stepReward: "redistributed", gamma: 0, scale: "none" }, members, told)).toEqual([[-0.2, 0.8, -0.2], [-0.2, -0.2]]);
});

test("the outcome beside the steps", () => {
  // Outcomes 1 and 0: 0.5 and -0.5, times 2, on top of the steps.
  expect(advantages({ scale: "none", outcomeWeight: 2 }, members, scores)).toEqual([[1.6, 1.65, 1.45], [-1.6, -1.55]]);
  // Equal outcomes carry nothing; the steps still do.
  const walks = [walk(0, ["s"]), walk(0, ["s"])];
  expect(advantages({ scale: "none", outcomeWeight: 2 }, walks, [[1, 1], [0, 0]])).toEqual([[1, 0.5], [-1, -0.5]]);
});

test("limits: equal scores train nothing; an unscored sample trains nothing and needs no scores", () => {
  expect(advantages({}, members, [[0.1, 0.1, 0.1], [0.1, 0.1]])).toEqual([[0, 0, 0], [0, 0]]);
  const [, , third] = advantages({ scale: "none" }, [...members, walk("broken", [])], [...scores, []]);
  expect(third).toBeNull();
});

test("scores that are missing or too few are refused", () => {
  const id = members[1]!.trajectory.id;
  const message = `trajectory ${id}: expected 2 scores of a process reward model, one a turn, got 1`;
  expect(() => advantages({}, members, [scores[0]!, [1]])).toThrow(new PolicyError(message));
  expect(() => processGrpo().credit([{ task: QUESTION, members }], plainContext)).toThrow(/one a turn, got none/);
  expect(processGrpo().needs).toEqual(["turnScores"]);
  expect(processGrpo({ klCoef: 0.1 }).needs).toEqual(["turnScores", "reference"]);
});

test("settings that contradict each other are refused", () => {
  const message =
    "algo.stepReward and algo.outcomeWeight: redistributed rewards add up to the outcome, which would count twice; set outcomeWeight to 0";
  expect(() => processGrpo({ stepReward: "redistributed", outcomeWeight: 1 })).toThrow(new ConfigError(message));
  expect(() => processGrpo({ baseline: "batch" as "group" })).toThrow(/algo\.baseline: expected "group" or "turn" or "state", got "batch"/);
});
