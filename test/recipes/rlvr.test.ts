/** Curves and the table of runs at equal sampled tokens. */
import { expect, test } from "vitest";
import { at, charts, rewardCurve, spread, table, type Run } from "../../recipes/rlvr/outcome.ts";

const line = [{ x: 0, y: 0.2 }, { x: 10, y: 0.4 }, { x: 20, y: 0.8 }];

/** Steps of 10 tokens with these rewards; one group in `thrown` steps is replaced. */
type Made = { readonly rewards: readonly number[]; readonly after: number; readonly thrown?: number };
const run = (name: string, seed: number, { rewards, after, thrown = 0 }: Made): Run => ({
  name,
  seed,
  groups: 3,
  steps: rewards.map((reward, i) => ({ step: i + 1, tokens: 10 * (i + 1), reward, replaced: i < thrown ? 1 : 0 })),
  heldout: [{ tokens: 0, success: 0.25, tasks: 100 }, { tokens: 10 * rewards.length, success: after, tasks: 100 }],
  kl: 0.01 * (seed + 1),
  seconds: 10 + seed,
});

test("a curve is linear between its points and flat outside them", () => {
  expect([0, 5, 10, 12.5, 20, 99].map((x) => at(line, x))).toEqual([0.2, expect.closeTo(0.3), 0.4, expect.closeTo(0.5), 0.8, 0.8]);
  expect(at(line, -1)).toBe(0.2);
});

test("rewards are means over equal parts of the budget; the step that goes beyond it is in the last part", () => {
  const { steps } = run("grpo", 0, { rewards: [0, 1, 0.5, 0.7], after: 1 });
  // Steps end at 10, 20, 30 and 40 of 35 tokens: (0, 17.5] holds one, the rest the other three.
  expect(rewardCurve({ steps }, { budget: 35, count: 2 })).toEqual([{ x: 8.75, y: 0 }, { x: 26.25, y: expect.closeTo(2.2 / 3) }]);
  // A step that ends exactly where a part does belongs to it; parts without a step are left out.
  expect(rewardCurve({ steps: steps.slice(0, 1) }, { budget: 40, count: 4 })).toEqual([{ x: 5, y: 0 }]);
});

test("the spread is the mean of the seeds, the lowest and the highest", () => {
  const points = spread([line, [{ x: 0, y: 0.4 }, { x: 20, y: 0.4 }]], [0, 20]);
  expect(points).toEqual([
    { x: 0, y: expect.closeTo(0.3), low: 0.2, high: 0.4 },
    { x: 20, y: expect.closeTo(0.6), low: 0.4, high: 0.8 },
  ]);
});

test("the table counts what was thrown away and pools the seeds' answers", () => {
  const runs = [
    run("dapo", 0, { rewards: [0, 1], after: 0.5, thrown: 2 }),
    run("dapo", 1, { rewards: [0, 1], after: 0.7 }),
    run("grpo", 0, { rewards: [1], after: 0.25 }),
  ];
  const rows = table(runs).split("\n").slice(2);
  // Thrown away: 2 of 8 groups, and 0 of 6. 120 of 200 right: Wilson 53.1 to 66.5 %.
  expect(rows[0]).toBe("| [dapo](algorithms/dapo.md) | 2 | 20 | 12.5 % | 25.0 % | 60.0 % (53.1 to 66.5 %) | 50.0, 70.0 | 0.015 | 11 |");
  expect(rows[1]).toMatch(/^\| \[grpo\].* \| 1 \| 10 \| 0\.0 % \| 25\.0 % \| 25\.0 % \(/);
  const [success, reward] = charts(runs, 20);
  expect(success!.series.map(({ name }) => name)).toEqual(["dapo", "grpo"]);
  expect(success!.series[0]!.points.at(-1)).toEqual({ x: 20, y: expect.closeTo(0.6), low: 0.5, high: 0.7 });
  expect(reward!.xName).toBe("sampled tokens");
});
