import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { math } from "../../../../src/loop/reward/verifiers/math.ts";

interface Pair {
  readonly form: string;
  readonly gold: string;
  readonly answer: string;
  readonly right: boolean;
}
const pairs = JSON.parse(readFileSync("test/loop/reward/verifiers/math-pairs.json", "utf8")) as readonly Pair[];
const verifier = math({ seconds: 10 });
const judged = async (gold: string, answer: string) => {
  const verdict = await verifier.verify({ gold, answer });
  return verdict.type === "scored" ? verdict.score : `${verdict.type}: ${verdict.reason}`;
};

test("at least 95 % of right answers are accepted and no wrong one is", async () => {
  const [missed, paid]: [string[], string[]] = [[], []];
  for (const { form, gold, answer, right } of pairs) {
    const score = await judged(gold, answer);
    if (right && score !== 1) missed.push(`${form}: ${gold} <- ${answer}: ${score}`);
    if (!right && score !== 0) paid.push(`${form}: ${gold} <- ${answer}: ${score}`);
  }
  if (missed.length + paid.length > 0) console.log([...missed.map((m) => `MISSED ${m}`), ...paid.map((m) => `PAID ${m}`)].join("\n"));
  const right = pairs.filter((pair) => pair.right).length;
  expect(pairs.length).toBeGreaterThanOrEqual(200);
  expect(paid).toEqual([]);
  expect(1 - missed.length / right).toBeGreaterThanOrEqual(0.95);
});
