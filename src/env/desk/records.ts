/** The records of one task: a few products and people with values drawn anew for every task, so that only a look-up can know them. */
import type { Split } from "../../types.ts";
import type { Draw } from "./draw.ts";
import { WORDS } from "./words.ts";

export const FIELDS = ["price", "stock", "shelf", "desk", "phone", "start"] as const;
export type Field = (typeof FIELDS)[number];

/** `name` and some of the fields, all as the text that a look-up returns. */
export type DeskRecord = { readonly name: string } & { readonly [F in Field]?: string };

export const PRODUCT_FIELDS = ["price", "stock", "shelf"] as const;
export const PERSON_FIELDS = ["desk", "phone", "start"] as const;

export function productName(random: Draw, split: Split): string {
  const words = WORDS[split];
  return `${random.pick(words.adjectives)} ${random.pick(words.items)}`;
}

export function personName(random: Draw, split: Split): string {
  const words = WORDS[split];
  return `${random.pick(words.firstNames)} ${random.pick(words.lastNames)}`;
}

function product(random: Draw, name: string): DeskRecord {
  return {
    name,
    price: String(random.range(11, 97)),
    stock: String(random.range(210, 990)),
    shelf: `${random.pick("ABCDEFGH".split(""))}${random.range(1, 9)}`,
  };
}

function person(random: Draw, name: string): DeskRecord {
  return {
    name,
    desk: String(random.range(11, 98)),
    phone: String(random.range(2000, 8999)),
    start: String(random.range(1985, 2024)),
  };
}

export interface Records {
  readonly products: readonly DeskRecord[];
  readonly people: readonly DeskRecord[];
}

export function recordsOf(random: Draw, split: Split): Records {
  const products = new Map<string, DeskRecord>();
  const people = new Map<string, DeskRecord>();
  while (products.size < 3) {
    const name = productName(random, split);
    products.set(name, product(random, name));
  }
  while (people.size < 2) {
    const name = personName(random, split);
    people.set(name, person(random, name));
  }
  return { products: [...products.values()], people: [...people.values()] };
}

/** What the tool `lookup` answers; throws a plain error for a name or a field that the records do not have. */
export function lookUp(records: readonly DeskRecord[], name: string, field: Field): string {
  const wanted = name.trim().replace(/\s+/g, " ").toLowerCase();
  const record = records.find((candidate) => candidate.name.toLowerCase() === wanted);
  if (record === undefined) throw new Error(`no record named "${name}"`);
  const value = record[field];
  if (value === undefined) {
    const known = FIELDS.filter((key) => record[key] !== undefined).join(", ");
    throw new Error(`"${record.name}" has no ${field}, only ${known}`);
  }
  return value;
}
