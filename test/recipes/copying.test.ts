import { expect, test } from "vitest";
import { copyRow } from "../../recipes/desk/copying.ts";

const options = { ids: Array.from({ length: 500 }, (_, i) => i + 10), often: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], length: 72 };

test("a copy row repeats its first round to the end", () => {
  const periods = new Set<number>();
  let digits = 0;
  for (let index = 0; index < 500; index++) {
    const { ids, from } = copyRow(3, index, options);
    expect(ids.length).toBe(72);
    expect(ids.slice(from)).toEqual(ids.slice(0, 72 - from));
    expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < 510)).toBe(true);
    periods.add(from);
    digits += ids.filter((id) => id < 10).length / 72 / 500;
  }
  expect([Math.min(...periods), Math.max(...periods)]).toEqual([6, 28]);
  expect(Math.abs(digits - 0.4)).toBeLessThan(0.03);
  expect(copyRow(3, 7, options)).toEqual(copyRow(3, 7, options));
  expect(copyRow(4, 7, options)).not.toEqual(copyRow(3, 7, options));
});

test("without favoured ids all are drawn alike, and a short row still has a round", () => {
  expect(copyRow(1, 0, { ids: [5], often: [], length: 8 })).toEqual({ ids: [5, 5, 5, 5, 5, 5, 5, 5], from: 6 });
});
