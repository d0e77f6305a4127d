/** The dials of a lock: what each shows, which answer sets it, and how far given answers come. */
import { integer, permutation, rng } from "../../random.ts";
import type { Split } from "../../types.ts";

/** What a dial shows: the right answer, a sign that stands for it in every lock of this seed, or its own number alone. */
export const lockHints = ["answer", "sign", "number"] as const;
export type LockHint = (typeof lockHints)[number];

export interface LockRules {
  readonly seed: number;
  readonly steps: number;
  readonly choices: number;
  readonly tries: number;
  readonly hint: LockHint;
}

/** What a task holds as its data: each dial's right answer and what it shows. */
export interface Lock {
  readonly right: readonly string[];
  readonly shown: readonly string[];
  readonly choices: number;
  readonly tries: number;
}

const SIGNS = "ABCDEFGH";

/** Lock `index` of a split. Signs stand for the answers in equal shares; the rule is the same for both splits. */
export function drawLock(split: Split, index: number, { seed, steps, choices, tries, hint }: LockRules): Lock {
  const order = permutation(rng(seed, "lock rule"), SIGNS.length);
  const key = hint === "number" ? rng(seed, "lock dials") : rng(seed, "lock", split, index);
  const signs = Array.from({ length: steps }, (_, dial) => integer(key, SIGNS.length, dial));
  const right = signs.map((sign) => String(1 + (order[sign]! % choices)));
  const shown = signs.map((sign, dial) => `${dial + 1}${{ answer: ` ${right[dial]!}`, sign: ` ${SIGNS[sign]!}`, number: "" }[hint]}`);
  return { right, shown, choices, tries };
}

/** All that is said of a state: the dial, what it shows, and the tries that are left. Equal texts are equal states, in every rollout. */
export function observation({ shown, tries }: Lock, { set, wrong }: Pick<Tried, "set" | "wrong">): string {
  return `${shown[set]!} ${tries - wrong}`;
}

interface Tried {
  readonly set: number;
  readonly wrong: number;
  readonly malformed: number;
  readonly done: boolean;
}

/** The lock after these answers. A wrong one leaves its dial; one that names no setting of a dial jams the lock at once. */
export function tryLock({ right, choices, tries }: Lock, answers: readonly string[]): Tried {
  let [set, wrong] = [0, 0];
  for (const answer of answers) {
    if (!/^[1-4]$/.test(answer) || Number(answer) > choices) return { set, wrong, malformed: 1, done: true };
    if (answer === right[set]) set++;
    else wrong++;
    if (set === right.length || wrong > tries) return { set, wrong, malformed: 0, done: true };
  }
  return { set, wrong, malformed: 0, done: false };
}
