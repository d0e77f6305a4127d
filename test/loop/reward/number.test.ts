import { expect, test } from "vitest";
import { number, statedNumber } from "../../../src/loop/reward/verifiers/number.ts";

const value = (text: string): string | null => {
  const stated = statedNumber(text);
  return stated.type === "number" ? stated.value : null;
};

test.each([
  ["The answer is 84.", "84"],
  ["84", "84"],
  ["It costs $1,234.50", "1234.5"],
  ["It costs 1\u202f234\u202f567 euros", "1234567"],
  ["84.00", "84"],
  ["084", "84"],
  ["0.50", "0.5"],
  ["-0", "0"],
  ["The change is -5", "-5"],
  ["The change is −5 degrees", "-5"],
  ["84kg", "84"],
  ["50%", "50"],
  ["48 + 36 = 84", "84"],
  ["48+36=84", "84"],
  ["First 12, then add 30: the total is 42.", "42"],
  ["answer:84", "84"],
  ["(84)", "84"],
  ["84 or 84", "84"],
  ["Step 1: 12. Step 2: 30.", "30"],
  ["84-", "84"],
  ["Total - 84", "84"],
])("%j states %s", (text, wanted) => expect(value(text)).toBe(wanted));

test.each([
  "", " ", "The answer is .", "The answer is K7-31", "x2", "6e3", "3*4", "3 * 4", "10 - 4", "10-15", "1/2", "12:00", "2^10", "4\\sqrt(2)",
  "84 or 85", "83, 84, 85", "83, 84 and 85", "84 85", "12 = 3*4", "1_000",
])("%j states no number", (text) => expect(value(text)).toBe(null));

const grade = (gold: string | number | null, answer: string) =>
  number({ after: "answer is" })({
    task: { id: "t", prompt: [], data: { answer: gold } },
    messages: [{ role: "user", content: "What is 84?" }, { role: "assistant", content: answer }],
    turns: [],
  });

test("a number is compared by value and never by substring", () => {
  const score = (gold: string | number, answer: string) => {
    const verdict = grade(gold, answer);
    return "score" in verdict ? verdict.score : verdict;
  };
  expect(score(84, "The answer is 84.0 boxes.")).toBe(1);
  expect(score("1,234", "The answer is 1234.")).toBe(1);
  expect(score(84, "The answer is 184.")).toBe(0);
  expect(score(84, "The answer is 840.")).toBe(0);
  expect(score(84, "The answer is 8.4")).toBe(0);
  expect(score(84, "84 was asked. The answer is unknown.")).toBe(0);
  expect(score(0, "The answer is 12:00")).toBe(0);
  expect(score("0.1", "0.10")).toBe(1);
});

test("a gold that is no number is unscorable, not 0", () => {
  expect(grade("blue", "84")).toEqual({ type: "unscorable", reason: 'task data "answer" holds no number' });
  expect(grade(null, "84")).toMatchObject({ type: "unscorable" });
  expect(grade("1,2,3", "123")).toMatchObject({ type: "unscorable" });
  expect(grade("12:00", "1:00")).toMatchObject({ type: "unscorable" });
});

test.each([
  ["spaces", " ".repeat(100_000)],
  ["digits", "1".repeat(100_000)],
  ["commas", " ,".repeat(50_000) + "1,".repeat(50_000)],
  ["numbers", "1 ".repeat(20_000)],
  ["groups", "1,111".repeat(20_000)],
  ["zeros on both sides of a 1", `${"0".repeat(100_000)}.${"0".repeat(100_000)}1`],
])("a hostile answer costs little: %s", (_, text) => {
  const started = performance.now();
  statedNumber(text);
  // Linear time is some 20 ms; quadratic time was over a minute. The rest is room for a busy machine.
  expect(performance.now() - started).toBeLessThan(5_000);
});
