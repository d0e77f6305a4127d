/**
 * Grammars over bytes: terminals are sets of bytes, put together by sequence, choice and reference. What a grammar allows next is
 * found by `automaton.ts`.
 */

export type Part =
  | { readonly kind: "bytes"; readonly set: Uint8Array; readonly id: number }
  | { readonly kind: "sequence"; readonly parts: readonly Part[]; readonly id: number }
  | { readonly kind: "choice"; readonly options: readonly Part[]; readonly id: number }
  /** Resolved when it is met, so that rules may refer to themselves, behind at least one byte. */
  | { readonly kind: "reference"; readonly resolve: () => Part; readonly id: number };

let made = 0;
const nextId = (): number => made++;

export const sequence = (...parts: readonly Part[]): Part => ({ kind: "sequence", parts, id: nextId() });
export const choice = (...options: readonly Part[]): Part => ({ kind: "choice", options, id: nextId() });
export const reference = (resolve: () => Part): Part => ({ kind: "reference", resolve, id: nextId() });
export const empty: Part = sequence();
export const optional = (part: Part): Part => choice(part, empty);

/** One byte out of inclusive ranges. */
export function bytes(...ranges: readonly (readonly [number, number])[]): Part {
  const set = new Uint8Array(256);
  for (const [from, to] of ranges) set.fill(1, from, to + 1);
  return { kind: "bytes", set, id: nextId() };
}

export function literal(text: string): Part {
  return sequence(...Array.from(new TextEncoder().encode(text), (byte) => bytes([byte, byte])));
}

/** One of some ASCII characters. */
export const oneOf = (characters: string): Part =>
  bytes(...Array.from(characters, (character) => [character.charCodeAt(0), character.charCodeAt(0)] as const));

/** At least `least` and at most `most` times, with `between` in the gaps. */
export function repeat(part: Part, { least, most, between = empty }: { least: number; most: number; between?: Part }): Part {
  if (most === Infinity) {
    const more: Part = choice(
      empty,
      sequence(
        between,
        part,
        reference(() => more),
      ),
    );
    if (least === 0) return optional(sequence(part, more));
    return sequence(part, ...Array.from({ length: least - 1 }, () => sequence(between, part)), more);
  }
  let rest: Part = empty;
  for (let place = most; place > 0; place--) {
    const here = sequence(place === 1 ? empty : between, part, rest);
    rest = place <= least ? here : optional(here);
  }
  return rest;
}

/** For each length of a beginning of `mark` that has been read, what a byte makes of it. */
function matcher(mark: Uint8Array): (length: number, byte: number) => number {
  const read = (length: number, byte: number): number => {
    const text = [...mark.subarray(0, length), byte];
    for (let size = Math.min(text.length, mark.length); size > 0; size--) {
      if (text.slice(-size).every((value, i) => value === mark[i])) return size;
    }
    return 0;
  };
  return read;
}

/** Any bytes that end with the first `mark` (`until`), or that have none in them (`without`). */
function scan(mark: string, ends: "until" | "without"): Part {
  const wanted = new TextEncoder().encode(mark);
  const next = matcher(wanted);
  const rules: Part[] = [];
  for (let length = 0; length < wanted.length; length++) {
    const groups = new Map<number, [number, number][]>();
    for (let byte = 0; byte < 256; byte++) {
      const to = next(length, byte);
      groups.set(to, [...(groups.get(to) ?? []), [byte, byte]]);
    }
    const options = [...groups].flatMap(([to, ranges]) => {
      if (to < wanted.length)
        return [
          sequence(
            bytes(...ranges),
            reference(() => rules[to]!),
          ),
        ];
      return ends === "until" ? [bytes(...ranges)] : [];
    });
    rules.push(choice(...options, ...(ends === "without" ? [empty] : [])));
  }
  return rules[0]!;
}

export const until = (mark: string): Part => scan(mark, "until");
export const without = (mark: string): Part => scan(mark, "without");
