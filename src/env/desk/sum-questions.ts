/** Questions that need the calculator: sums too long for a small model to do in its head. */
import { hash32 } from "../../random.ts";
import { calculate } from "./arithmetic.ts";
import type { Draw } from "./draw.ts";
import type { Made, NeededCall, Setting } from "./question.ts";

type Sum = readonly [expression: string, ...phrasings: string[]];

const SUMS: readonly ((random: Draw) => Sum)[] = [
  (random) => {
    const [a, b] = [random.range(12, 98), random.range(12, 98)];
    return [`${a}*${b}`, `What is ${a} times ${b}?`, `Work out ${a}*${b}.`, `${a} boxes hold ${b} cards each. How many cards is that?`];
  },
  (random) => {
    const [a, b, c] = [random.range(100, 999), random.range(100, 999), random.range(100, 999)];
    return [`${a}+${b}+${c}`, `Add ${a}, ${b} and ${c}.`, `What is ${a} plus ${b} plus ${c}?`, `Work out ${a}+${b}+${c}.`];
  },
  (random) => {
    const [a, b] = [random.range(2000, 9899), random.range(102, 989)];
    return [`${a}-${b}`, `What is ${a} minus ${b}?`, `Take ${b} away from ${a}.`, `Work out ${a}-${b}.`];
  },
  (random) => {
    const [a, b, c] = [random.range(12, 89), random.range(12, 89), random.range(100, 999)];
    return [`${a}*${b}+${c}`, `What is ${a} times ${b} plus ${c}?`, `Work out ${a}*${b}+${c}.`];
  },
  (random) => {
    const [a, b, c] = [random.range(100, 899), random.range(12, 98), random.range(3, 9)];
    return [`(${a}+${b})*${c}`, `Add ${a} and ${b}, then times ${c}.`, `Work out (${a}+${b})*${c}.`];
  },
];

/** A sum belongs to one split by its hash, so that no tested sum was ever trained on. */
export function sum(random: Draw, { split }: Setting): Made {
  for (;;) {
    const [expression, ...phrasings] = random.pick(SUMS)(random);
    if ((hash32(expression) % 5 === 0) !== (split === "test")) continue;
    const result = calculate(expression);
    return { text: random.pick(phrasings), needs: [sumNeed(expression, result)], answer: result, answerType: "number" };
  }
}

export function sumNeed(expression: string, result: string): NeededCall {
  return { tool: "calculator", arguments: { expression }, result };
}
