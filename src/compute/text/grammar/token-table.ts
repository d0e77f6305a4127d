/** All tokens in the order of their bytes, so that one pass over a grammar's automaton says which of them may come next. */
import type { Tokenizer } from "../tokenizer.ts";
import type { Automaton, State } from "./automaton.ts";

export interface TokenTable {
  readonly size: number;
  readonly bytesOf: (id: number) => Uint8Array | undefined;
  /** Calls `visit` for each token that may follow, with the state after it. */
  walk(automaton: Automaton, from: State, visit: (id: number, after: State) => void): void;
}

/** Control tokens are left out, except those whose text is one of `marks`; so are ids that stand for no bytes. */
export function tokenTable(tokenizer: Tokenizer, marks: readonly string[]): TokenTable {
  const control = new Set(tokenizer.specials.filter(({ special, text }) => special && !marks.includes(text)).map(({ id }) => id));
  const entries = new Map<number, Uint8Array>();
  for (let id = 0; id < tokenizer.size; id++) {
    const known = tokenizer.hasToken(id) && !control.has(id) ? tokenizer.bytesOf(id) : undefined;
    if (known !== undefined && known.length > 0) entries.set(id, known);
  }
  const sorted = [...entries].sort(([, a], [, b]) => Buffer.compare(a, b));
  const shared = sorted.map(([, own], i) => (i === 0 ? 0 : commonLength(own, sorted[i - 1]![1])));
  return {
    size: tokenizer.size,
    bytesOf: (id) => entries.get(id),
    walk: (automaton, from, visit) => {
      const path: State[] = [from]; // path[n]: the state after n bytes of the token before
      sorted.forEach(([id, own], i) => {
        if (shared[i]! >= path.length) return; // it goes on from bytes that were refused
        path.length = shared[i]! + 1;
        for (let at = shared[i]!; at < own.length; at++) {
          const next = automaton.step(path[at]!, own[at]!);
          if (next === null) return;
          path.push(next);
        }
        visit(id, path[own.length]!);
      });
    },
  };
}

function commonLength(a: Uint8Array, b: Uint8Array): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length++;
  return length;
}
