/**
 * Constrained decoding: only tokens that a grammar can go on with are drawn, and the end of turn only where the grammar may end. Near
 * the token limit only those that leave enough tokens to come to an end, so that the text is always whole.
 */
import { ConfigError, expected } from "../../../errors.ts";
import type { TokenConstraint } from "../../../types.ts";
import type { Automaton, State } from "./automaton.ts";
import type { TokenTable } from "./token-table.ts";

interface Allowed {
  readonly mask: Uint8Array;
  /** The largest distance to an end after any of these tokens. */
  readonly farthest: number;
}

/** Masks that are kept for one grammar, each of the size of the vocabulary in bytes. */
const maxMasks = 256;

/** What narrows one sample; `cut` says that the token limit has closed the text earlier than the model would have. */
export interface GrammarConstraint extends TokenConstraint {
  readonly cut: boolean;
}

/** Makes constraints for the samples of one grammar; what one of them has found out serves all. */
export function grammarConstraints(automaton: Automaton, table: TokenTable, stopIds: readonly number[]): () => GrammarConstraint {
  const masks = new Map<State, Allowed>();
  const allowedIn = (state: State): Allowed => {
    let found = masks.get(state);
    if (found === undefined) {
      const mask = new Uint8Array(table.size);
      let farthest = 0;
      table.walk(automaton, state, (id, after) => {
        mask[id] = 1;
        farthest = Math.max(farthest, after.distance);
      });
      if (masks.size >= maxMasks) masks.clear();
      masks.set(state, (found = { mask, farthest }));
    }
    return found;
  };
  return () => {
    let state = automaton.start;
    let cut = false;
    return {
      get cut() {
        return cut;
      },
      allow: (mask, left) => {
        // Every byte is a token, so a distance in bytes is never less than one in tokens; the end of turn is one more.
        if (state.distance + 1 > left) {
          const want = `at least ${state.distance + 1} tokens for the shortest text of this form`;
          throw new ConfigError(expected("max_tokens", want, String(left)));
        }
        const allowed = allowedIn(state);
        if (allowed.farthest + 2 <= left) mask.set(allowed.mask);
        else {
          cut = true;
          table.walk(automaton, state, (id, after) => {
            if (after.distance + 2 <= left) mask[id] = 1;
          });
        }
        if (state.complete) for (const id of stopIds) mask[id] = 1;
      },
      accept: (id) => {
        if (stopIds.includes(id)) return;
        for (const byte of table.bytesOf(id) ?? []) state = automaton.step(state, byte)!;
      },
    };
  };
}
