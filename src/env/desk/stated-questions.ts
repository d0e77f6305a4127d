/** Questions that need no tool: the answer stands in the question. */
import type { Split } from "../../types.ts";
import type { Draw } from "./draw.ts";
import type { Made, Setting } from "./question.ts";
import { personName, productName } from "./records.ts";
import { WORDS } from "./words.ts";

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

export function stated(random: Draw, { split }: Setting): Made {
  return random.pick(STATED)(random, split);
}
