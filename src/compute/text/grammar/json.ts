/** JSON text as grammars. One space may stand after a colon or a comma and nowhere else, so that no model can pad without end. */
import { bytes, choice, literal, oneOf, optional, reference, repeat, sequence, type Part } from "./grammar.ts";

const space = optional(literal(" "));
export const comma = sequence(literal(","), space);
export const colon = sequence(literal(":"), space);

const continuation = bytes([0x80, 0xbf]);
const hex = bytes([0x30, 0x39], [0x41, 0x46], [0x61, 0x66]);
const digit = bytes([0x30, 0x39]);

/** One character of a string: UTF-8 without forms that are too long or surrogates, or an escape. */
const character = choice(
  bytes([0x20, 0x21], [0x23, 0x5b], [0x5d, 0x7f]),
  sequence(bytes([0xc2, 0xdf]), continuation),
  sequence(bytes([0xe0, 0xe0]), bytes([0xa0, 0xbf]), continuation),
  sequence(bytes([0xe1, 0xec], [0xee, 0xef]), continuation, continuation),
  sequence(bytes([0xed, 0xed]), bytes([0x80, 0x9f]), continuation),
  sequence(bytes([0xf0, 0xf0]), bytes([0x90, 0xbf]), continuation, continuation),
  sequence(bytes([0xf1, 0xf3]), continuation, continuation, continuation),
  sequence(bytes([0xf4, 0xf4]), bytes([0x80, 0x8f]), continuation, continuation),
  sequence(literal("\\"), oneOf('"\\/bfnrt')),
  sequence(literal("\\u"), bytes([0x30, 0x39], [0x41, 0x43], [0x45, 0x46], [0x61, 0x63], [0x65, 0x66]), hex, hex, hex),
  sequence(literal("\\u"), oneOf("dD"), bytes([0x30, 0x37]), hex, hex),
);

export function string({ least = 0, most = Infinity }: { readonly least?: number; readonly most?: number } = {}): Part {
  return sequence(literal('"'), repeat(character, { least, most }), literal('"'));
}

const natural = choice(literal("0"), sequence(bytes([0x31, 0x39]), repeat(digit, { least: 0, most: 14 })));
const positive = sequence(bytes([0x31, 0x39]), repeat(digit, { least: 0, most: 14 }));
const sign = optional(literal("-"));

/** Whole numbers of at most 15 digits, which a double holds. */
export const integers = { any: sequence(sign, natural), natural, positive } as const;

const fraction = optional(sequence(literal("."), repeat(digit, { least: 1, most: 15 })));
const exponent = optional(sequence(oneOf("eE"), optional(oneOf("+-")), repeat(digit, { least: 1, most: 2 })));
export const numbers = { any: sequence(sign, natural, fraction, exponent), natural: sequence(natural, fraction, exponent) } as const;

export const boolean = choice(literal("true"), literal("false"));
export const nothing = literal("null");

/** Levels of nesting of a value without a schema; deeper ones are no use and endless ones no end. */
const depth = 12;

const values: Part[] = [];
const objects: Part[] = [];
const plain = string();
for (let level = 0; level <= depth; level++) {
  const inner = values[level - 1];
  const scalar = [plain, numbers.any, boolean, nothing];
  objects.push(inner === undefined ? literal("{}") : objectOf(inner));
  values.push(inner === undefined ? choice(...scalar) : choice(...scalar, objects[level]!, array(inner, { least: 0, most: Infinity })));
}

/** Any JSON value, and any JSON object. */
export const anyValue = values[depth]!;
export const anyObject = objects[depth]!;

/** An object with any keys, whose values are all of one form. */
export function objectOf(value: Part): Part {
  const member = sequence(plain, colon, value);
  return sequence(literal("{"), repeat(member, { least: 0, most: Infinity, between: comma }), literal("}"));
}

export function array(item: Part, { least, most }: { readonly least: number; readonly most: number }): Part {
  return sequence(literal("["), repeat(item, { least, most, between: comma }), literal("]"));
}

export interface Member {
  readonly key: string;
  readonly value: Part;
  readonly required: boolean;
}

/** An object with these members, in this order, of which those that are not required may be left out. */
export function object(members: readonly Member[]): Part {
  const texts = members.map(({ key, value }) => sequence(literal(JSON.stringify(key)), colon, value));
  // What may follow at member i, where no member has been written before it and where one has.
  const after: Part[] = Array.from({ length: members.length + 1 });
  const before: Part[] = Array.from({ length: members.length + 1 });
  after[members.length] = before[members.length] = literal("}");
  for (let i = members.length - 1; i >= 0; i--) {
    const next = reference(() => after[i + 1]!);
    const { required } = members[i]!;
    const [first, later] = [sequence(texts[i]!, next), sequence(comma, texts[i]!, next)];
    before[i] = required ? first : choice(first, before[i + 1]!);
    after[i] = required ? later : choice(later, after[i + 1]!);
  }
  return sequence(literal("{"), before[0]!);
}
