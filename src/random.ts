/**
 * Counter-based randomness (Philox 4x32-10, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a number is a
 * function of its address (seed, step, prompt, sample, token), so nothing depends on order, on parallelism or on saved state.
 */
import type { RandomKey } from "./types.ts";

const M0 = 0xd2511f53;
const M1 = 0xcd9e8d57;
const W0 = 0x9e3779b9;
const W1 = 0xbb67ae85;

/** High and low 32 bits of a 32 x 32 bit product, written to out[0], out[1]. */
function mulHiLo(a: number, b: number, out: Uint32Array): void {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const low = aLow * bLow;
  const mid1 = aHigh * bLow;
  const mid2 = aLow * bHigh;
  const carry = (low >>> 16) + (mid1 & 0xffff) + (mid2 & 0xffff);
  out[0] = aHigh * bHigh + (mid1 >>> 16) + (mid2 >>> 16) + (carry >>> 16);
  out[1] = ((carry & 0xffff) << 16) | (low & 0xffff);
}

const scratch = new Uint32Array(2);

/** Ten rounds of Philox 4x32; `counter` and the result are 4 unsigned 32-bit words. */
export function philox(key: RandomKey, counter: readonly [number, number, number, number]): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter;
  let k0 = key.lo >>> 0;
  let k1 = key.hi >>> 0;
  for (let round = 0; round < 10; round++) {
    mulHiLo(M0, c0, scratch);
    const hi0 = scratch[0]!;
    const lo0 = scratch[1]!;
    mulHiLo(M1, c2, scratch);
    const hi1 = scratch[0]!;
    const lo1 = scratch[1]!;
    c0 = (hi1 ^ c1 ^ k0) >>> 0;
    c1 = lo1;
    c2 = (hi0 ^ c3 ^ k1) >>> 0;
    c3 = lo0;
    k0 = (k0 + W0) >>> 0;
    k1 = (k1 + W1) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** A key for the address `parts` (non-negative integers, or strings); each part is absorbed by one Philox call. */
export function rng(seed: number, ...parts: readonly (number | string)[]): RandomKey {
  let key: RandomKey = { hi: 0, lo: seed >>> 0 };
  for (const part of parts) {
    const word = typeof part === "number" ? part : hash32(part);
    const [lo, hi] = philox(key, [word >>> 0, Math.floor(word / 2 ** 32) >>> 0, typeof part === "number" ? 0 : 1, 0]);
    key = { hi, lo };
  }
  return key;
}

/** Uniform in [0, 1) with 24 bits, so that it is exact in float32; number `counter` of the stream `key`. */
export function uniform(key: RandomKey, counter = 0): number {
  return (philox(key, [counter >>> 0, 0, 0, 0])[0] >>> 8) / 2 ** 24;
}

/** Integer in [0, bound). */
export function integer(key: RandomKey, bound: number, counter = 0): number {
  const [a, b] = philox(key, [counter >>> 0, 0, 0, 0]);
  return Math.floor(((a >>> 5) * 2 ** 26 + (b >>> 6)) / 2 ** 53 * bound);
}

/** Standard normal (Box and Muller), for initial weights. */
export function normal(key: RandomKey, counter = 0): number {
  const [a, b] = philox(key, [counter >>> 0, 0, 0, 0]);
  return Math.sqrt(-2 * Math.log((a + 1) / (2 ** 32 + 1))) * Math.cos((2 * Math.PI * b) / 2 ** 32);
}

/** A permutation of 0..size-1 (Fisher and Yates). */
export function permutation(key: RandomKey, size: number): number[] {
  const order = Array.from({ length: size }, (_, i) => i);
  for (let i = size - 1; i > 0; i--) {
    const j = integer(key, i + 1, i);
    const kept = order[i]!;
    order[i] = order[j]!;
    order[j] = kept;
  }
  return order;
}

/** FNV-1a, 32 bits: turns a name into an address part. */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
