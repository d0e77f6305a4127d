/**
 * Keys and values of sequences being sampled, written from outside the graph: per layer one array [rows, kvHeads, capacity,
 * headDim], of which the first n rows are handed to a program without a copy. Active rows are kept at the front.
 */
import type { Architecture } from "../../models/architecture.ts";
import { HostTensor, type Pool } from "../../tensor/host.ts";

/** Keys and values of one sequence taken out of the cache: per layer [kvHeads, length, headDim]. */
interface SavedCache {
  readonly length: number;
  readonly keys: readonly Float32Array[];
  readonly values: readonly Float32Array[];
  readonly bytes: number;
}

/** Capacity grows in steps of this many tokens, so that attention over unused slots stays small. */
const step = 64;

export class KvCache {
  readonly #a: Architecture;
  readonly #pool: Pool;
  #held: HostTensor[] = [];
  #keys: Float32Array[] = [];
  #values: Float32Array[] = [];
  #rows = 0;
  #capacity = 0;

  constructor(architecture: Architecture, pool: Pool) {
    this.#a = architecture;
    this.#pool = pool;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** Makes room for `rows` sequences of `length` tokens, keeping the first `used` rows. */
  reserve(rows: number, length: number, used: number): void {
    const capacity = Math.max(this.#capacity, Math.ceil(length / step) * step);
    if (rows <= this.#rows && capacity === this.#capacity) return;
    const room = Math.max(rows, this.#rows);
    const { layers, kvHeads, headDim } = this.#a;
    const before = this.#held;
    this.#held = [];
    const grown = (old: Float32Array | undefined): Float32Array => {
      const tensor = this.#pool.take([room * kvHeads * capacity * headDim]);
      this.#held.push(tensor);
      const fresh = tensor.floats.fill(0); // a masked slot has probability 0, and 0 times garbage may be NaN
      for (let r = 0; old !== undefined && r < used * kvHeads; r++) {
        fresh.set(old.subarray(r * this.#capacity * headDim, (r + 1) * this.#capacity * headDim), r * capacity * headDim);
      }
      return fresh;
    };
    for (let i = 0; i < layers; i++) {
      this.#keys[i] = grown(this.#keys[i]);
      this.#values[i] = grown(this.#values[i]);
    }
    this.#pool.give(...before);
    this.#rows = room;
    this.#capacity = capacity;
  }

  /** Program inputs `past.i.keys`, `past.i.values` over rows from..to-1; no copy. */
  view(from: number, to: number): Record<string, HostTensor> {
    const { layers, kvHeads, headDim } = this.#a;
    const stride = kvHeads * this.#capacity * headDim;
    const shape = [to - from, kvHeads, this.#capacity, headDim];
    const feeds: Record<string, HostTensor> = {};
    for (let i = 0; i < layers; i++) {
      feeds[`past.${i}.keys`] = new HostTensor(this.#keys[i]!.subarray(from * stride, to * stride), shape);
      feeds[`past.${i}.values`] = new HostTensor(this.#values[i]!.subarray(from * stride, to * stride), shape);
    }
    return feeds;
  }

  /** Appends a program's new keys and values [n, kvHeads, T, headDim]: row r gets its first counts[r] tokens at starts[r]. */
  append(
    results: Readonly<Record<string, HostTensor>>,
    from: number,
    { starts, counts }: { starts: readonly number[]; counts: readonly number[] },
  ): void {
    const { layers, kvHeads, headDim } = this.#a;
    for (let i = 0; i < layers; i++) {
      for (const [target, source] of [
        [this.#keys[i]!, results[`${i}.keys`]!],
        [this.#values[i]!, results[`${i}.values`]!],
      ] as const) {
        const tokens = source.shape[2]!;
        const data = source.floats;
        for (let r = 0; r < starts.length; r++) {
          for (let h = 0; h < kvHeads; h++) {
            const at = (((from + r) * kvHeads + h) * this.#capacity + starts[r]!) * headDim;
            const begin = (r * kvHeads + h) * tokens * headDim;
            target.set(data.subarray(begin, begin + counts[r]! * headDim), at);
          }
        }
      }
    }
  }

  /** Copies the first `length` tokens of one row over another. */
  copyRow(source: number, target: number, length: number): void {
    const { layers, kvHeads, headDim } = this.#a;
    for (let i = 0; i < layers; i++) {
      for (const array of [this.#keys[i]!, this.#values[i]!]) {
        for (let h = 0; h < kvHeads; h++) {
          const begin = (source * kvHeads + h) * this.#capacity * headDim;
          array.copyWithin((target * kvHeads + h) * this.#capacity * headDim, begin, begin + length * headDim);
        }
      }
    }
  }

  /** Takes a copy of a row's first `length` tokens out. */
  save(row: number, length: number): SavedCache {
    const { kvHeads, headDim } = this.#a;
    const take = (array: Float32Array): Float32Array => {
      const out = new Float32Array(kvHeads * length * headDim);
      for (let h = 0; h < kvHeads; h++) {
        const begin = (row * kvHeads + h) * this.#capacity * headDim;
        out.set(array.subarray(begin, begin + length * headDim), h * length * headDim);
      }
      return out;
    };
    return {
      length,
      keys: this.#keys.map(take),
      values: this.#values.map(take),
      bytes: 2 * this.#a.layers * kvHeads * length * headDim * 4,
    };
  }

  /** Puts the first `length` tokens of a saved cache into a row. */
  restore(saved: SavedCache, row: number, length: number): void {
    const { layers, kvHeads, headDim } = this.#a;
    for (let i = 0; i < layers; i++) {
      for (const [array, from] of [
        [this.#keys[i]!, saved.keys[i]!],
        [this.#values[i]!, saved.values[i]!],
      ] as const) {
        for (let h = 0; h < kvHeads; h++) {
          const begin = h * saved.length * headDim;
          array.set(from.subarray(begin, begin + length * headDim), (row * kvHeads + h) * this.#capacity * headDim);
        }
      }
    }
  }

  /** Gives the arrays back; the next use starts from the smallest capacity, as a new process would. */
  clear(): void {
    this.#pool.give(...this.#held);
    this.#held = [];
    this.#keys = [];
    this.#values = [];
    this.#rows = 0;
    this.#capacity = 0;
  }
}

/** Caches of finished turns, by their token ids: a next turn, or a prompt that begins the same way, goes on from there. */
export class RetainedCaches {
  readonly #entries = new Set<{ ids: Int32Array; variant: string; cache: SavedCache }>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The entry that shares the longest prefix with `ids`; at least 8 tokens, at most all but the last. */
  find(ids: ArrayLike<number>, variant: string): { cache: SavedCache; length: number } | undefined {
    let best: { ids: Int32Array; variant: string; cache: SavedCache } | undefined;
    let longest = 7;
    for (const entry of this.#entries) {
      if (entry.variant !== variant) continue;
      const limit = Math.min(entry.cache.length, ids.length - 1);
      if (limit <= longest) continue;
      let i = 0;
      while (i < limit && entry.ids[i] === ids[i]) i++;
      if (i > longest) {
        longest = i;
        best = entry;
      }
    }
    if (best === undefined) return undefined;
    this.#entries.delete(best); // last used goes to the end: the first is dropped first
    this.#entries.add(best);
    return { cache: best.cache, length: longest };
  }

  add(ids: Int32Array, variant: string, cache: SavedCache): void {
    if (cache.bytes > this.#maxBytes) return;
    for (const entry of this.#entries) {
      const covered = entry.variant === variant && entry.ids.length <= ids.length && entry.ids.every((id, i) => id === ids[i]);
      if (covered) this.#drop(entry);
    }
    this.#entries.add({ ids, variant, cache });
    this.#bytes += cache.bytes;
    for (const entry of this.#entries) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#drop(entry);
    }
  }

  #drop(entry: { ids: Int32Array; variant: string; cache: SavedCache }): void {
    if (this.#entries.delete(entry)) this.#bytes -= entry.cache.bytes;
  }

  /** Drops all entries, or those of one variant. */
  clear(variant?: string): void {
    for (const entry of this.#entries) if (variant === undefined || entry.variant === variant) this.#drop(entry);
  }
}
