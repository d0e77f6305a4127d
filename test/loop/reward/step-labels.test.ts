import { expect, test } from "vitest";
import { solutionScore, stepLabel } from "../../../src/loop/reward/step-labels.ts";

test("hard: any completion right; soft: the share; what was not graded is left out", () => {
  expect([stepLabel([0, 0, 1, 0], "hard"), stepLabel([0, 0, 1, 0], "soft")]).toEqual([1, 0.25]);
  expect([stepLabel([0, 0], "hard"), stepLabel([0, 0], "soft")]).toEqual([0, 0]);
  expect([stepLabel([1, null, 0], "hard"), stepLabel([1, null, 0], "soft")]).toEqual([1, 0.5]);
  expect([stepLabel([null], "hard"), stepLabel([], "soft")]).toEqual([null, null]);
  // A part of the score is not right.
  expect([stepLabel([0.9, 0.5], "hard"), stepLabel([0.9, 1], "soft")]).toEqual([0, 0.5]);
});

test("a solution is as good as its weakest step, all of them together, or its last", () => {
  const steps = [0.5, 0.25, 1];
  expect([solutionScore(steps, "min"), solutionScore(steps, "product"), solutionScore(steps, "last")]).toEqual([0.25, 0.125, 1]);
  expect([solutionScore([], "min"), solutionScore([], "product"), solutionScore([], "last")]).toEqual([0, 0, 0]);
});
