/**
 * Questions of the desk environment. Names stand in quotation marks, in the question as in a tool's arguments, so that a small model
 * can copy the same tokens; numbers have at most four digits.
 */
import { hash32 } from "../../random.ts";
import type { JsonObject, Split } from "../../types.ts";
import { calculate } from "./arithmetic.ts";
import type { Draw } from "./draw.ts";
import { PERSON_FIELDS, personName, PRODUCT_FIELDS, productName, recordsOf, type DeskRecord, type Field, type Records } from "./records.ts";
import { WORDS } from "./words.ts";

/** What a question needs: a sum, a record, a record and then a sum, or no tool at all. */
export type QuestionKind = "calculator" | "lookup" | "chain" | "none";

/** One call that the question needs, and the result it gives. */
export interface NeededCall {
  readonly tool: "calculator" | "lookup";
  readonly arguments: JsonObject;
  readonly result: string;
}

export interface Question {
  readonly kind: QuestionKind;
  readonly text: string;
  readonly needs: readonly NeededCall[];
  readonly answer: string;
  readonly answerType: "number" | "text";
  /** The last assistant message of a right solution. */
  readonly final: string;
  readonly records: readonly DeskRecord[];
}

const KINDS: readonly QuestionKind[] = ["calculator", "lookup", "chain", "none"];
const ODDS = [35, 25, 25, 15];

export function question(random: Draw, split: Split): Question {
  const kind = KINDS[random.weighted(ODDS)]!;
  const { products, people } = recordsOf(random, split);
  const made = MAKERS[kind](random, { split, products, people });
  return { final: `The answer is ${made.answer}.`, ...made, kind, records: [...products, ...people] };
}

interface Setting extends Records {
  readonly split: Split;
}

type Made = Pick<Question, "text" | "needs" | "answer" | "answerType"> & { readonly final?: string };

const MAKERS: { readonly [K in QuestionKind]: (random: Draw, setting: Setting) => Made } = {
  calculator: sum,
  lookup: fact,
  chain,
  none: stated,
};

// -------------------------------------------------------------------------------------------------------------- sums

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
function sum(random: Draw, { split }: Setting): Made {
  for (;;) {
    const [expression, ...phrasings] = random.pick(SUMS)(random);
    if ((hash32(expression) % 5 === 0) !== (split === "test")) continue;
    const result = calculate(expression);
    return { text: random.pick(phrasings), needs: [sumNeed(expression, result)], answer: result, answerType: "number" };
  }
}

function sumNeed(expression: string, result: string): NeededCall {
  return { tool: "calculator", arguments: { expression }, result };
}

// ------------------------------------------------------------------------------------------------------------- records

const FACTS: { readonly [F in Field]: readonly ((name: string) => string)[] } = {
  price: [(name) => `What does ${name} cost?`, (name) => `How much is ${name}?`, (name) => `Tell me the price of ${name}.`],
  stock: [(name) => `How many ${name} do we have?`, (name) => `What is the stock of ${name}?`, (name) => `How many ${name} are left?`],
  shelf: [(name) => `Where is ${name}?`, (name) => `Which shelf holds ${name}?`, (name) => `Tell me the shelf of ${name}.`],
  desk: [(name) => `Which desk has ${name}?`, (name) => `At which desk is ${name}?`, (name) => `Tell me the desk of ${name}.`],
  phone: [(name) => `What is the phone number of ${name}?`, (name) => `How do I call ${name}?`, (name) => `Tell me the phone of ${name}.`],
  start: [(name) => `In which year did ${name} start?`, (name) => `Since when is ${name} here?`, (name) => `Tell me the start of ${name}.`],
};

function fact(random: Draw, { products, people }: Setting): Made {
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

function chain(random: Draw, { products, people }: Setting): Made {
  const { field, range, expression, phrasings } = random.pick(CHAINS);
  const record = random.pick(field === "start" ? people : products);
  const count = random.range(...range);
  const first = recordNeed(record, field);
  const sumOf = expression(first.result, count);
  const result = calculate(sumOf);
  const text = random.pick(phrasings)(`"${record.name}"`, count);
  return { text, needs: [first, sumNeed(sumOf, result)], answer: result, answerType: "number" };
}

// --------------------------------------------------------------------------------------------------- answers in the question

const STATED: readonly ((random: Draw, split: Split) => Made)[] = [
  (random, split) => {
    const code = `${random.pick(WORDS[split].codeLetters)}${random.range(1, 9)}-${random.range(11, 98)}`;
    return direct(random.pick([`Repeat the code ${code}.`, `The code is ${code}. What is the code?`]), code);
  },
  (random, split) => {
    const words = random.several(WORDS[split].items, 3);
    const last = random.range(0, 1) === 1;
    return direct(`Which word is ${last ? "last" : "first"}: ${words.join(", ")}?`, words[last ? 2 : 0]!);
  },
  (random, split) => {
    const [name, room] = [`"${personName(random, split)}"`, random.pick(WORDS[split].rooms)];
    return direct(`${name} is in room ${room}. ${random.pick([`Where is ${name}?`, `Which room has ${name}?`])}`, room);
  },
  (random, split) => {
    const [name, count, other] = [`"${productName(random, split)}"`, random.range(12, 98), random.range(120, 980)];
    const text = `A box holds ${count} ${name}, a shelf holds ${other}. How many ${name} does a box hold?`;
    return { ...direct(text, String(count)), answerType: "number" };
  },
  (random, split) => {
    const name = personName(random, split);
    return { ...direct(random.pick([`Say hello to "${name}".`, `Greet "${name}" with hello.`]), `Hello ${name}`), final: `Hello ${name}.` };
  },
];

function direct(text: string, answer: string): Made {
  return { text, needs: [], answer, answerType: "text" };
}

function stated(random: Draw, { split }: Setting): Made {
  return random.pick(STATED)(random, split);
}
