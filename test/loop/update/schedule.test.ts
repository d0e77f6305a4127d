/** Learning-rate schedules against transformers' get_scheduler. */
import { expect, test } from "vitest";
import { learningRateAt } from "../../../src/loop/update/schedule.ts";
import { goldenJson } from "../../fakes/golden.ts";

type Rates = Readonly<Record<"constant" | "constantWithWarmup" | "linear" | "cosine", readonly number[]>>;
const { base, warmup, total, ...rates } = goldenJson<{ schedules: Rates & { base: number; warmup: number; total: number } }>(
  "adamw.json",
).schedules;

test.each([
  ["constant", 0, rates.constant],
  ["constant", warmup, rates.constantWithWarmup],
  ["linear", warmup, rates.linear],
  ["cosine", warmup, rates.cosine],
] as const)("%s with a warm-up of %d", (schedule, steps, stored) => {
  expect(stored.length).toBe(total + 1);
  stored.forEach((rate, update) => expect(learningRateAt(update, { base, schedule, warmup: steps, total })).toBeCloseTo(rate, 10));
});

test("after the end a schedule stays where it ended", () => {
  expect(learningRateAt(total + 5, { base, schedule: "linear", warmup, total })).toBe(0);
  expect(learningRateAt(total + 5, { base, schedule: "constant", warmup, total })).toBe(base);
});
