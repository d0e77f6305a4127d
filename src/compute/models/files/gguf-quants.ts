/**
 * Block formats of ggml, from bytes to float32 and (Q8_0, F16) back. Layouts follow ggml's `ggml-common.h`; results are
 * bitwise those of the `gguf` Python package (the stored values under test/golden/gguf).
 */
import type { StoredType } from "./weight-source.ts";
import { blockLayout } from "./weight-source.ts";

/** Decodes `blocks` whole blocks from `bytes` (from its start) into `out` from index `at`. */
type Decoder = (bytes: Uint8Array, blocks: number, out: Float32Array, at: number) => void;

const word = new Uint32Array(1);
const asFloat = new Float32Array(word.buffer);

let halfTable: Float32Array | undefined;

/** Float32 value of each of the 65,536 half-precision bit patterns, made at first use. */
function halfValues(): Float32Array {
  if (halfTable !== undefined) return halfTable;
  halfTable = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) halfTable[bits] = halfToNumber(bits);
  return halfTable;
}

function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Half-precision bits of a float32 value, rounded to nearest even; overflow becomes infinity. */
function toHalf(value: number): number {
  asFloat[0] = value;
  const bits = word[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x47800000) return sign | 0x7c00;
  if (magnitude < 0x38800000) return sign | roundEven(Math.abs(asFloat[0]) * 2 ** 24);
  const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
  return sign | ((rounded - 0x38000000) >>> 13);
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

const decodeF64: Decoder = (bytes, blocks, out, at) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, blocks * 8);
  for (let i = 0; i < blocks; i++) out[at + i] = view.getFloat64(i * 8, true);
};

const decodeF32: Decoder = (bytes, blocks, out, at) => {
  new Uint8Array(out.buffer, out.byteOffset + at * 4, blocks * 4).set(bytes.subarray(0, blocks * 4));
};

const decodeF16: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let i = 0, p = 0; i < blocks; i++, p += 2) out[at + i] = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
};

const decodeBF16: Decoder = (bytes, blocks, out, at) => {
  const bits = new Uint32Array(out.buffer, out.byteOffset + at * 4, blocks);
  for (let i = 0, p = 0; i < blocks; i++, p += 2) bits[i] = (bytes[p]! << 16) | (bytes[p + 1]! << 24);
};

const decodeQ8_0: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 34) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    for (let i = 0; i < 32; i++) out[at++] = d * ((bytes[p + 2 + i]! << 24) >> 24);
  }
};

const decodeQ4_0: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 18, at += 32) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    for (let i = 0; i < 16; i++) {
      const pair = bytes[p + 2 + i]!;
      out[at + i] = d * ((pair & 15) - 8);
      out[at + 16 + i] = d * ((pair >> 4) - 8);
    }
  }
};

const decodeQ4_1: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 20, at += 32) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    const m = half[bytes[p + 2]! | (bytes[p + 3]! << 8)]!;
    for (let i = 0; i < 16; i++) {
      const pair = bytes[p + 4 + i]!;
      out[at + i] = d * (pair & 15) + m;
      out[at + 16 + i] = d * (pair >> 4) + m;
    }
  }
};

const decodeQ5_0: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 22, at += 32) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    const high = bytes[p + 2]! | (bytes[p + 3]! << 8) | (bytes[p + 4]! << 16) | (bytes[p + 5]! << 24);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[p + 6 + i]!;
      out[at + i] = d * (((pair & 15) | (((high >>> i) & 1) << 4)) - 16);
      out[at + 16 + i] = d * (((pair >> 4) | (((high >>> (i + 16)) & 1) << 4)) - 16);
    }
  }
};

const decodeQ5_1: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 24, at += 32) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    const m = half[bytes[p + 2]! | (bytes[p + 3]! << 8)]!;
    const high = bytes[p + 4]! | (bytes[p + 5]! << 8) | (bytes[p + 6]! << 16) | (bytes[p + 7]! << 24);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[p + 8 + i]!;
      out[at + i] = d * ((pair & 15) | (((high >>> i) & 1) << 4)) + m;
      out[at + 16 + i] = d * ((pair >> 4) | (((high >>> (i + 16)) & 1) << 4)) + m;
    }
  }
};

/** The 6-bit scale `j` (0 to 7) of a 12-byte K-quant scale table that starts at `p`. */
function scaleOf(bytes: Uint8Array, p: number, j: number): number {
  return j < 4 ? bytes[p + j]! & 63 : (bytes[p + j + 4]! & 15) | ((bytes[p + j - 4]! >> 6) << 4);
}

/** The 6-bit minimum `j` of the same table. */
function minimumOf(bytes: Uint8Array, p: number, j: number): number {
  return j < 4 ? bytes[p + j + 4]! & 63 : (bytes[p + j + 4]! >> 4) | ((bytes[p + j]! >> 6) << 4);
}

const decodeQ4_K: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 144) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    const dMin = half[bytes[p + 2]! | (bytes[p + 3]! << 8)]!;
    for (let j = 0; j < 8; j++) {
      const scale = d * scaleOf(bytes, p + 4, j);
      const minimum = dMin * minimumOf(bytes, p + 4, j);
      const from = p + 16 + (j >> 1) * 32;
      const shift = (j & 1) * 4;
      for (let i = 0; i < 32; i++) out[at++] = scale * ((bytes[from + i]! >> shift) & 15) - minimum;
    }
  }
};

const decodeQ5_K: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 176) {
    const d = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    const dMin = half[bytes[p + 2]! | (bytes[p + 3]! << 8)]!;
    for (let j = 0; j < 8; j++) {
      const scale = d * scaleOf(bytes, p + 4, j);
      const minimum = dMin * minimumOf(bytes, p + 4, j);
      const from = p + 48 + (j >> 1) * 32;
      const shift = (j & 1) * 4;
      for (let i = 0; i < 32; i++) {
        const q = ((bytes[from + i]! >> shift) & 15) | (((bytes[p + 16 + i]! >> j) & 1) << 4);
        out[at++] = scale * q - minimum;
      }
    }
  }
};

const decodeQ6_K: Decoder = (bytes, blocks, out, at) => {
  const half = halfValues();
  for (let b = 0, p = 0; b < blocks; b++, p += 210) {
    const d = half[bytes[p + 208]! | (bytes[p + 209]! << 8)]!;
    // 256 values: two halves of 128, each four runs of 32; run k takes nibble k >> 1 of low byte (k & 1) * 32 + i.
    for (let k = 0; k < 8; k++) {
      const side = k >> 2;
      const run = k & 3;
      const low = p + side * 64 + (run & 1) * 32;
      const high = p + 128 + side * 32;
      for (let i = 0; i < 32; i++) {
        const q = ((bytes[low + i]! >> ((run >> 1) * 4)) & 15) | (((bytes[high + i]! >> (run * 2)) & 3) << 4);
        const scale = (bytes[p + 192 + k * 2 + (i >> 4)]! << 24) >> 24;
        out[at++] = d * scale * (q - 32);
      }
    }
  }
};

const decoders: Readonly<Record<StoredType, Decoder>> = {
  F64: decodeF64,
  F32: decodeF32,
  F16: decodeF16,
  BF16: decodeBF16,
  Q8_0: decodeQ8_0,
  Q4_0: decodeQ4_0,
  Q4_1: decodeQ4_1,
  Q5_0: decodeQ5_0,
  Q5_1: decodeQ5_1,
  Q4_K: decodeQ4_K,
  Q5_K: decodeQ5_K,
  Q6_K: decodeQ6_K,
};

/** Decodes the whole blocks in `bytes` into `out` from index `at`; returns the index after the last value. */
export function decodeBlocks(type: StoredType, bytes: Uint8Array, target: { readonly out: Float32Array; readonly at: number }): number {
  const { values, bytes: blockBytes } = blockLayout[type];
  const blocks = bytes.length / blockBytes;
  decoders[type](bytes, blocks, target.out, target.at);
  return target.at + blocks * values;
}

/** Half-precision bytes of `data`, little-endian. */
export function encodeF16(data: Float32Array): Uint8Array {
  const halves = new Uint16Array(data.length);
  for (let i = 0; i < data.length; i++) halves[i] = toHalf(data[i]!);
  return new Uint8Array(halves.buffer);
}

/** Q8_0 blocks of `data` (length a multiple of 32), as ggml's reference quantiser makes them: scale max |x| / 127. */
export function encodeQ8_0(data: Float32Array): Uint8Array {
  const blocks = data.length / 32;
  const out = new Uint8Array(blocks * 34);
  for (let b = 0, p = 0; b < blocks; b++, p += 34) {
    let largest = 0;
    for (let i = 0; i < 32; i++) largest = Math.max(largest, Math.abs(data[b * 32 + i]!));
    const d = Math.fround(largest / 127);
    const inverse = d === 0 ? 0 : Math.fround(1 / d);
    const half = toHalf(d);
    out[p] = half & 255;
    out[p + 1] = half >> 8;
    for (let i = 0; i < 32; i++) out[p + 2 + i] = roundAway(Math.fround(data[b * 32 + i]! * inverse));
  }
  return out;
}

/** C's roundf: halves go away from zero. */
function roundAway(value: number): number {
  return Math.sign(value) * Math.floor(Math.abs(value) + 0.5);
}
