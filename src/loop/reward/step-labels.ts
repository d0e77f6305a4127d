/** What completions of a prefix say of the step that it ends with, and what step scores say of a whole solution. */

/** "hard": 1 if any completion is right; "soft": the share that is (Math-Shepherd, Wang et al. 2024, arXiv:2312.08935). */
export type StepLabelKind = "hard" | "soft";

/** The label of a step from the scores of its completions; a score of at least 1 is right. Null where none was graded. */
export function stepLabel(scores: readonly (number | null)[], kind: StepLabelKind): number | null {
  const graded = scores.filter((score) => score !== null);
  if (graded.length === 0) return null;
  const right = graded.filter((score) => score >= 1).length;
  switch (kind) {
    case "hard":
      return right > 0 ? 1 : 0;
    case "soft":
      return right / graded.length;
  }
}

/** The weakest step, all steps together, or the last (which has seen everything before it). */
export type SolutionScore = "min" | "product" | "last";

/** One number for a solution from its steps' scores, 0 to 1 each; a solution without steps is worth 0. */
export function solutionScore(steps: readonly number[], how: SolutionScore): number {
  if (steps.length === 0) return 0;
  switch (how) {
    case "min":
      return Math.min(...steps);
    case "product":
      return steps.reduce((product, step) => product * step, 1);
    case "last":
      return steps.at(-1)!;
  }
}
