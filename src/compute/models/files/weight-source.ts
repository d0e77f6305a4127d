/**
 * Weights on disk as named tensors. Opening a source reads headers only; `read` brings one tensor into memory as float32.
 */

/** How numbers are stored in a file. Quantised kinds are the blocks of ggml; `read` always gives float32. */
export type StoredType =
  | "F64"
  | "F32"
  | "F16"
  | "BF16"
  | "Q8_0"
  | "Q4_0"
  | "Q4_1"
  | "Q5_0"
  | "Q5_1"
  | "Q4_K"
  | "Q5_K"
  | "Q6_K";

export interface StoredTensor {
  readonly name: string;
  /** Outermost dimension first, as in PyTorch: a linear layer is [out, in]. */
  readonly shape: readonly number[];
  readonly type: StoredType;
}

export interface WeightSource {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  /** The whole tensor in row-major order, in a fresh array that the caller owns. ModelError if it is absent or damaged. */
  read(name: string): Promise<Float32Array>;
  /** Frees the file handles; the source cannot be read afterwards. */
  close(): Promise<void>;
}

/** A tensor to be written. A function is called when its turn comes, so that only one tensor need be in memory. */
export interface TensorToWrite {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array | (() => Float32Array | Promise<Float32Array>);
}

/** Values and bytes of one block of each stored type. */
export const blockLayout: Readonly<Record<StoredType, { readonly values: number; readonly bytes: number }>> = {
  F64: { values: 1, bytes: 8 },
  F32: { values: 1, bytes: 4 },
  F16: { values: 1, bytes: 2 },
  BF16: { values: 1, bytes: 2 },
  Q8_0: { values: 32, bytes: 34 },
  Q4_0: { values: 32, bytes: 18 },
  Q4_1: { values: 32, bytes: 20 },
  Q5_0: { values: 32, bytes: 22 },
  Q5_1: { values: 32, bytes: 24 },
  Q4_K: { values: 256, bytes: 144 },
  Q5_K: { values: 256, bytes: 176 },
  Q6_K: { values: 256, bytes: 210 },
};

/** Number of elements of a shape; 1 for a scalar. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
