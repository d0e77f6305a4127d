/** Questions that need a record, alone or for a sum. */
import { calculate } from "./arithmetic.ts";
import type { Draw } from "./draw.ts";
import type { Made, NeededCall, Setting } from "./question.ts";
import { PERSON_FIELDS, PRODUCT_FIELDS, type DeskRecord, type Field } from "./records.ts";
import { sumNeed } from "./sum-questions.ts";

const FACTS: { readonly [F in Field]: readonly ((name: string) => string)[] } = {
  price: [(name) => `What does ${name} cost?`, (name) => `How much is ${name}?`, (name) => `Tell me the price of ${name}.`],
  stock: [(name) => `How many ${name} do we have?`, (name) => `What is the stock of ${name}?`, (name) => `How many ${name} are left?`],
  shelf: [(name) => `Where is ${name}?`, (name) => `Which shelf holds ${name}?`, (name) => `Tell me the shelf of ${name}.`],
  desk: [(name) => `Which desk has ${name}?`, (name) => `At which desk is ${name}?`, (name) => `Tell me the desk of ${name}.`],
  phone: [(name) => `What is the phone number of ${name}?`, (name) => `How do I call ${name}?`, (name) => `Tell me the phone of ${name}.`],
  start: [(name) => `In which year did ${name} start?`, (name) => `Since when is ${name} here?`, (name) => `Tell me the start of ${name}.`],
};

export function fact(random: Draw, { products, people }: Setting): Made {
  const isProduct = random.range(0, 1) === 0;
  const record = random.pick(isProduct ? products : people);
  const field: Field = random.pick<Field>(isProduct ? PRODUCT_FIELDS : PERSON_FIELDS);
  const need = recordNeed(record, field);
  const text = random.pick(FACTS[field])(`"${record.name}"`);
  return { text, needs: [need], answer: need.result, answerType: field === "shelf" ? "text" : "number" };
}

function recordNeed(record: DeskRecord, field: Field): NeededCall {
  return { tool: "lookup", arguments: { name: record.name, field }, result: record[field]! };
}

interface Chain {
  readonly field: Field;
  readonly range: readonly [number, number];
  readonly expression: (value: string, count: number) => string;
  readonly phrasings: readonly ((name: string, count: number) => string)[];
}

const CHAINS: readonly Chain[] = [
  {
    field: "price",
    range: [3, 29],
    expression: (value, count) => `${count}*${value}`,
    phrasings: [
      (name, count) => `What do ${count} ${name} cost?`,
      (name, count) => `I need ${count} ${name}. How much is that?`,
    ],
  },
  {
    field: "stock",
    range: [12, 98],
    expression: (value, count) => `${value}-${count}`,
    phrasings: [
      (name, count) => `We sell ${count} ${name}. How many are left?`,
      (name, count) => `How many ${name} are left without ${count}?`,
    ],
  },
  {
    field: "stock",
    range: [12, 98],
    expression: (value, count) => `${value}+${count}`,
    phrasings: [
      (name, count) => `We buy ${count} more ${name}. How many do we have then?`,
      (name, count) => `How many ${name} with ${count} more?`,
    ],
  },
  {
    field: "start",
    range: [2026, 2039],
    expression: (value, count) => `${count}-${value}`,
    phrasings: [
      (name, count) => `How many years is ${name} here in ${count}?`,
      (name, count) => `In ${count}, for how many years is ${name} here?`,
    ],
  },
];

export function chain(random: Draw, { products, people }: Setting): Made {
  const { field, range, expression, phrasings } = random.pick(CHAINS);
  const record = random.pick(field === "start" ? people : products);
  const count = random.range(...range);
  const first = recordNeed(record, field);
  const sumOf = expression(first.result, count);
  const result = calculate(sumOf);
  const text = random.pick(phrasings)(`"${record.name}"`, count);
  return { text, needs: [first, sumNeed(sumOf, result)], answer: result, answerType: "number" };
}
