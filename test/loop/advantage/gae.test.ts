import { expect, test } from "vitest";
import { gae } from "../../../src/loop/advantage/gae.ts";

const values = [0.5, 0.6, 0.7];
const near = (list: ArrayLike<number>, want: readonly number[]): void => {
  expect(list.length).toBe(want.length);
  want.forEach((value, t) => expect(list[t]).toBeCloseTo(value, 6));
};

test("an episode that ended: the reward is all there is", () => {
  const { advantages, returns } = gae({ rewards: [0, 0, 1], values, valueAfter: 0, gamma: 1, lambda: 0.95 });
  near(advantages, [0.46575, 0.385, 0.3]); // 0.3; 0.1 + 0.95 * 0.3; 0.1 + 0.95 * 0.385
  near(returns, [0.96575, 0.985, 1]);
});

test("an episode that a limit cut is worth what its next state is worth", () => {
  const cut = { rewards: [0, 0, 0], values, gamma: 1, lambda: 0.95 };
  near(gae({ ...cut, valueAfter: 0.8 }).advantages, [0.28525, 0.195, 0.1]);
  near(gae({ ...cut, valueAfter: 0 }).advantages, [-0.43675, -0.565, -0.7]);
});

test("lambda 1 is Monte-Carlo, lambda 0 one step", () => {
  const rewards = [1, 2, 4];
  near(gae({ rewards, values, valueAfter: 8, gamma: 0.5, lambda: 1 }).returns, [1 + 1 + 1 + 1, 2 + 2 + 2, 4 + 4]);
  near(gae({ rewards, values, valueAfter: 8, gamma: 0.5, lambda: 0 }).returns, [1 + 0.3, 2 + 0.35, 4 + 4]);
});

test("values and rewards of different lengths are refused", () => {
  const wrong = (): unknown => gae({ rewards: [1], values, valueAfter: 0, gamma: 1, lambda: 1 });
  expect(wrong).toThrow("gae: expected 1 values, one for each reward, got 3");
});
