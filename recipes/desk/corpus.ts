/**
 * Plain text for the tokenizer and for pre-training: office sentences in the words of the desk. It teaches the words of both splits,
 * how to say again what was said before (names in quotation marks, digits), and how a sum or a record is written. It holds no result
 * of any sum, no task, and no name of the test split: a test word stands only beside words of the train split.
 */
import { draw, type Draw } from "../../src/env/desk/draw.ts";
import { FIELDS } from "../../src/env/desk/records.ts";
import { WORDS, type WordList } from "../../src/env/desk/words.ts";
import { rng } from "../../src/random.ts";

/** Paragraphs until `bytes` bytes of UTF-8 are made (each with one line break after it); a function of the seed. */
export function* corpus(seed: number, bytes: number): Generator<string> {
  let made = 0;
  for (let i = 0; made < bytes; i++) {
    const random = draw(rng(seed, "corpus", i));
    const text = random.pick(PARAGRAPHS)(random);
    made += new TextEncoder().encode(text).length + 1;
    yield text;
  }
}

function all(list: keyof WordList): readonly string[] {
  return [...WORDS.train[list], ...WORDS.test[list]];
}

/** Two words, at least one of them of the train split. */
function nameFrom(random: Draw, first: keyof WordList, second: keyof WordList): string {
  const start = random.pick(all(first));
  return `${start} ${random.pick(WORDS.test[first].includes(start) ? WORDS.train[second] : all(second))}`;
}

const thing = (random: Draw): string => nameFrom(random, "adjectives", "items");
const someone = (random: Draw): string => nameFrom(random, "firstNames", "lastNames");
const either = (random: Draw): string => (random.range(0, 1) === 0 ? thing(random) : someone(random));
const value = (random: Draw): string => {
  const digits = random.range(2, 4);
  return String(random.range(10 ** (digits - 1) + 1, 10 ** digits - 2));
};

/** A shelf is a letter and a digit, all else is a number. */
function valueOf(random: Draw, field: string): string {
  return field === "shelf" ? `${random.pick("ABCDEFGH".split(""))}${random.range(1, 9)}` : value(random);
}

const PARAGRAPHS: readonly ((random: Draw) => string)[] = [
  stated, statedTwice, repeated, record, sumInWords, quoted, story, story, list, code,
];

/** A fact and the question that it answers: what is asked was said before. */
function stated(random: Draw): string {
  const [name, field] = [`"${either(random)}"`, random.pick(FIELDS)];
  const known = valueOf(random, field);
  const [what, which] = [`the ${field} of ${name}`, `Which ${field} has ${name}?`];
  const question = random.pick([`What is ${what}?`, `Tell me ${what}.`, which]);
  return `The ${field} of ${name} is ${known}. ${question} The answer is ${known}.`;
}

/** Two facts of which one is asked, so that it does not suffice to repeat the last. */
function statedTwice(random: Draw): string {
  const field = random.pick(FIELDS);
  const [one, other] = [`"${thing(random)}"`, `"${someone(random)}"`];
  const values = [valueOf(random, field), valueOf(random, field)] as const;
  const asked = random.range(0, 1);
  const facts = `${one}: ${field} ${values[0]}. ${other}: ${field} ${values[1]}.`;
  return `${facts} The ${field} of ${asked === 0 ? one : other} is ${values[asked]}.`;
}

/** Words and digits in no order, said twice. */
function repeated(random: Draw): string {
  const parts = Array.from({ length: random.range(3, 7) }, () => random.pick([either, value, value])(random)).join(" ");
  return `${parts}; ${parts}.`;
}

function record(random: Draw): string {
  const [name, field] = [either(random), random.pick(FIELDS)];
  const known = valueOf(random, field);
  const question = random.pick([`Tell me the ${field} of "${name}".`, `What is the ${field} of "${name}"?`]);
  return `${question} {"name": "${name}", "field": "${field}"} gives ${known}. The answer is ${known}.`;
}

/** A sum in words and as an expression; its result is never said. */
function sumInWords(random: Draw): string {
  const [a, b, c] = [value(random), value(random), value(random)];
  const [words, expression] = random.pick([
    [`${a} times ${b}`, `${a}*${b}`],
    [`${a} plus ${b}`, `${a}+${b}`],
    [`${a} minus ${b}`, `${a}-${b}`],
    [`${a} plus ${b} plus ${c}`, `${a}+${b}+${c}`],
    [`Add ${a}, ${b} and ${c}`, `${a}+${b}+${c}`],
    [`Take ${b} away from ${a}`, `${a}-${b}`],
    [`${a} times ${b} plus ${c}`, `${a}*${b}+${c}`],
    [`Add ${a} and ${b}, then times ${c}`, `(${a}+${b})*${c}`],
  ] as const);
  return `${words}: {"expression": "${expression}"}. Work out ${expression}.`;
}

function quoted(random: Draw): string {
  const word = random.pick([...all("items"), ...all("adjectives"), ...all("firstNames"), ...all("lastNames"), ...all("rooms")]);
  return random.pick([`The word ${word} is "${word}".`, `"${word}" is the word ${word}.`, `Say ${word}: "${word}".`]);
}

function story(random: Draw): string {
  const [name, item, room, other] = [someone(random), thing(random), random.pick(all("rooms")), someone(random)];
  return random.pick([
    `"${name}" is in room ${room} and needs the ${item}. How many are left, and who has more?`,
    `We sell the ${item} and buy more of it in room ${room}. "${name}" can tell which shelf holds it.`,
    `"${name}" and "${other}" start here. Say hello to "${name}". Hello ${name}. Greet "${other}" with hello. Hello ${other}.`,
    `Where is "${name}"? "${name}" is in room ${room}. Which room has "${name}"? The answer is ${room}.`,
    `You help in an office. How do I call "${name}"? Since when is "${other}" here? What does "${item}" cost?`,
    `Each box holds cards, each shelf holds boxes. How much is "${item}", and how many "${item}" do we have then?`,
  ]);
}

function list(random: Draw): string {
  const words = random.several(all("items"), random.range(3, 4));
  const last = random.range(0, 1) === 1;
  return `The words are ${words.join(", ")}. The ${last ? "last" : "first"} word is ${words.at(last ? -1 : 0)!}.`;
}

function code(random: Draw): string {
  const text = `${random.pick(all("codeLetters"))}${random.range(1, 9)}-${random.range(11, 98)}`;
  return `The code is ${text}. ${random.pick(["Repeat the code", "What is the code?"])} ${text}.`;
}
