import { expect, test } from "vitest";
import { pairedBootstrap, pairedRates, passAtK, wilson } from "../../../src/train/evaluate/statistics.ts";

test("Wilson interval: closed form and limits", () => {
  // 5 of 10, z = 1.96 (rounded): (0.5 +- ...) is symmetric; half = z sqrt(0.25/10 + z^2/400) / (1 + z^2/10) = 0.26341
  const half = wilson(5, 10);
  expect(half.low).toBeCloseTo(0.236593, 6);
  expect(half.high).toBeCloseTo(0.763407, 6);
  // None of 10: high = z^2 / (10 + z^2) = 3.841459 / 13.841459
  expect(wilson(0, 10)).toEqual({ low: 0, high: expect.closeTo(0.277533, 6) });
  expect(wilson(10, 10)).toEqual({ low: expect.closeTo(0.722467, 6), high: 1 });
  // 81 of 263 is the worked example of Newcombe (1998): 0.2553 to 0.3662
  expect(wilson(81, 263)).toEqual({ low: expect.closeTo(0.2553, 4), high: expect.closeTo(0.3662, 4) });
  expect(wilson(0, 0)).toEqual({ low: 0, high: 1 });
  expect(() => wilson(3, 2)).toThrow("expected 0 <= successes <= trials, got 3 of 2");
});

const cells = (both: number, gained: number, lost: number, neither: number): [boolean[], boolean[]] => {
  const fill = (n: number, value: boolean): boolean[] => Array.from({ length: n }, () => value);
  return [
    [...fill(both, true), ...fill(gained, false), ...fill(lost, true), ...fill(neither, false)],
    [...fill(both, true), ...fill(gained, true), ...fill(lost, false), ...fill(neither, false)],
  ];
};

test("paired rates: exact McNemar and the interval of the difference", () => {
  const result = pairedRates(...cells(10, 9, 1, 0));
  // 2 x (C(10,0) + C(10,1)) / 2^10 = 22 / 1024
  expect(result.pValue).toBeCloseTo(22 / 1024, 12);
  expect([result.before, result.after, result.difference]).toEqual([0.55, 0.95, 0.4]);
  // (9 - 1) / 22 +- 1.96 sqrt(10 + 1 - 64 / 22) / 22 = 0.363636 +- 0.253410
  expect(result.interval.low).toBeCloseTo(0.110226, 5);
  expect(result.interval.high).toBeCloseTo(0.617047, 5);
});

test("paired rates: no change is p = 1, and many tasks do not underflow", () => {
  const same = pairedRates(...cells(3, 0, 0, 2));
  expect([same.difference, same.pValue]).toEqual([0, 1]);
  expect(pairedRates(...cells(0, 4, 4, 0)).pValue).toBe(1);
  const many = pairedRates(...cells(0, 1100, 1000, 0)).pValue;
  // Normal approximation with continuity: z = 99 / sqrt(2100) = 2.1604, p = 0.03074
  expect(many).toBeCloseTo(0.03074, 4);
  expect(() => pairedRates([true], [])).toThrow("got 1 and 0");
});

test("paired bootstrap: constant gain, repeatability, and the normal limit", () => {
  const constant = pairedBootstrap([0, 1, 2], [0.5, 1.5, 2.5]);
  expect(constant).toEqual({ difference: 0.5, interval: { low: 0.5, high: 0.5 } });
  const before = Array.from({ length: 100 }, () => 0);
  const after = Array.from({ length: 100 }, (_, i) => i % 2);
  const result = pairedBootstrap(before, after);
  expect(result).toEqual(pairedBootstrap(before, after));
  // The mean of 100 coin flips has standard error 0.05: 0.5 +- 1.96 x 0.05
  expect(result.interval.low).toBeCloseTo(0.402, 1);
  expect(result.interval.high).toBeCloseTo(0.598, 1);
  expect(result.difference).toBe(0.5);
});

test("pass@k is 1 - C(n - c, k) / C(n, k)", () => {
  expect(passAtK(10, 3, 1)).toBeCloseTo(0.3, 12);
  expect(passAtK(10, 3, 2)).toBeCloseTo(1 - 21 / 45, 12);
  expect(passAtK(5, 2, 3)).toBeCloseTo(1 - 1 / 10, 12);
  expect([passAtK(10, 0, 5), passAtK(10, 10, 1), passAtK(4, 2, 3)]).toEqual([0, 1, 1]);
  expect(() => passAtK(4, 2, 5)).toThrow("expected an integer from 1 to 4, got 5");
});
