/** Prompts that begin alike, such as by one system message and the same tools: what they share is computed once. */

/** Tokens from which on sharing saves more than the extra call costs. */
const least = 32;

interface Start {
  readonly ids: readonly number[];
  /** Tokens whose keys and values are there already. */
  readonly cached: number;
}

interface SharedStart<T> {
  /** The one that computes the shared tokens: of all the one that has most of them. */
  readonly first: T;
  /** The others, as far as they lack shared tokens. */
  readonly others: readonly T[];
  readonly length: number;
}

/** Length of the common beginning of two lists of ids, at most `limit`. */
function commonStart(a: readonly number[], b: readonly number[], limit: number): number {
  let length = 0;
  while (length < limit && a[length] === b[length]) length++;
  return length;
}

/**
 * Groups of two or more different prompts with the same first 32 tokens, and how long all of a group begin alike (at most all but
 * the last token of each, which the decoding program reads).
 */
export function sharedStarts<T extends Start>(starts: readonly T[]): SharedStart<T>[] {
  const groups = new Map<string, T[]>();
  for (const start of starts) {
    if (start.ids.length <= least) continue;
    const key = start.ids.slice(0, least).join();
    groups.set(key, [...(groups.get(key) ?? []), start]);
  }
  return [...groups.values()].flatMap((group) => {
    const first = group.reduce((a, b) => (b.cached > a.cached ? b : a));
    const length = group.reduce((known, { ids }) => commonStart(first.ids, ids, Math.min(known, ids.length - 1)), first.ids.length - 1);
    const others = group.filter((start) => start !== first && start.cached < length);
    return others.length === 0 ? [] : [{ first, others, length }];
  });
}
