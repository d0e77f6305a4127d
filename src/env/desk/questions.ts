/**
 * Questions of the desk environment. Names stand in quotation marks, in the question as in a tool's arguments, so that a small model
 * can copy the same tokens; numbers have at most four digits.
 */
import { rng } from "../../random.ts";
import type { Split } from "../../types.ts";
import { draw } from "./draw.ts";
import type { Maker, Question, QuestionKind } from "./question.ts";
import { chain, fact } from "./record-questions.ts";
import { recordsOf } from "./records.ts";
import { stated } from "./stated-questions.ts";
import { sum } from "./sum-questions.ts";

const MAKERS: { readonly [K in QuestionKind]: Maker } = { calculator: sum, lookup: fact, chain, none: stated };
const ODDS: { readonly [K in QuestionKind]: number } = { calculator: 35, lookup: 25, chain: 25, none: 15 };
export const KINDS = Object.keys(ODDS) as QuestionKind[];

interface Place {
  readonly seed: number;
  readonly split: Split;
  readonly index: number;
}

/** The question at a place of a split, of one of the kinds; a function of its arguments alone. */
export function question({ seed, split, index }: Place, kinds: readonly QuestionKind[] = KINDS): Question {
  const random = draw(rng(seed, "desk", split, index));
  const kind = kinds[random.weighted(kinds.map((name) => ODDS[name]))]!;
  const { products, people } = recordsOf(random, split);
  const made = MAKERS[kind](random, { split, products, people });
  return { final: `The answer is ${made.answer}.`, ...made, kind, records: [...products, ...people] };
}
