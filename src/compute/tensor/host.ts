/**
 * Host memory: arrays with a shape, handed to the runtime without a copy, and a pool that lends buffers for the outputs of
 * programs so that a step of constant shape touches no new memory.
 */
import * as ort from "onnxruntime-node";
import { expected } from "../../errors.ts";
import type { DType } from "./graph.ts";

export type HostArray = Float32Array | BigInt64Array | Uint8Array;

/** A dense array in row-major order; `data` may be a view into a larger buffer. */
export class HostTensor {
  readonly data: HostArray;
  readonly shape: readonly number[];
  readonly dtype: DType;
  #value: ort.Tensor | undefined;

  constructor(data: HostArray, shape: readonly number[]) {
    const size = shape.reduce((a, b) => a * b, 1);
    if (size !== data.length)
      throw new RangeError(expected("HostTensor", `${size} elements for shape [${shape.join(", ")}]`, String(data.length)));
    this.data = data;
    this.shape = shape;
    this.dtype = data instanceof Float32Array ? "float32" : data instanceof BigInt64Array ? "int64" : "bool";
  }

  /** @internal The runtime's view of this memory. Its types need those of a browser, so the published declarations leave it out. */
  get value(): ort.Tensor {
    this.#value ??= new ort.Tensor(this.dtype, this.data as never, this.shape);
    return this.#value;
  }

  get floats(): Float32Array {
    if (!(this.data instanceof Float32Array)) throw new TypeError(expected("HostTensor.floats", "float32", this.dtype));
    return this.data;
  }
}

/** A float32 tensor from numbers. */
export function floats(values: ArrayLike<number>, shape: readonly number[] = [values.length]): HostTensor {
  return new HostTensor(values instanceof Float32Array ? values : Float32Array.from(values), shape);
}

/** An int64 tensor from integers. */
export function integers(values: ArrayLike<number>, shape: readonly number[] = [values.length]): HostTensor {
  const data = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) data[i] = BigInt(values[i]!);
  return new HostTensor(data, shape);
}

const bytesPerElement: Record<DType, number> = { float32: 4, int64: 8, bool: 1 };

/** Sizes are rounded up to eighths of a power of two, so that nearly equal sizes share buffers at 12.5 % waste or less. */
function sizeClass(bytes: number): number {
  if (bytes <= 1024) return 1024;
  const step = 2 ** (Math.floor(Math.log2(bytes)) - 3);
  return Math.ceil(bytes / step) * step;
}

/** Lends output buffers and takes them back. What is given back must not be used again. */
export class Pool {
  readonly #free = new Map<number, ArrayBuffer[]>();
  /** Bytes held, lent or free. */
  bytes = 0;

  take(shape: readonly number[], dtype: DType = "float32"): HostTensor {
    const size = shape.reduce((a, b) => a * b, 1);
    const wanted = sizeClass(size * bytesPerElement[dtype]);
    let buffer = this.#free.get(wanted)?.pop();
    if (buffer === undefined) {
      buffer = new ArrayBuffer(wanted);
      this.bytes += wanted;
    }
    const array =
      dtype === "float32"
        ? new Float32Array(buffer, 0, size)
        : dtype === "int64"
          ? new BigInt64Array(buffer, 0, size)
          : new Uint8Array(buffer, 0, size);
    return new HostTensor(array, shape);
  }

  give(...tensors: readonly (HostTensor | undefined)[]): void {
    for (const tensor of tensors) {
      if (tensor === undefined) continue;
      const buffer = tensor.data.buffer as ArrayBuffer;
      const list = this.#free.get(buffer.byteLength);
      if (list === undefined) this.#free.set(buffer.byteLength, [buffer]);
      else list.push(buffer);
    }
  }

  /** Drops the free buffers if they are more than `limit` bytes: with ever new shapes they would only grow. */
  trim(limit = 0): void {
    let free = 0;
    for (const [size, list] of this.#free) free += size * list.length;
    if (free <= limit) return;
    this.bytes -= free;
    this.#free.clear();
  }
}
