/** One tensor from a file into float32, through a buffer of bounded size. */
import { ModelError, expected } from "../../../errors.ts";
import type { OpenedFile } from "./file-io.ts";
import { readExactly } from "./file-io.ts";
import { decodeBlocks } from "./gguf-quants.ts";
import type { StoredTensor } from "./weight-source.ts";
import { blockLayout, elementCount } from "./weight-source.ts";

/** Bytes of encoded data in memory at a time. */
const CHUNK_BYTES = 4 * 1024 * 1024;

/** Where a tensor's bytes are. */
export interface TensorPlace {
  readonly tensor: StoredTensor;
  readonly offset: number;
  readonly bytes: number;
}

/** Reads a tensor whole: float32 straight into the result, other types through one chunk. ModelError for NaN or infinity in it. */
export async function readTensor(file: OpenedFile, place: TensorPlace): Promise<Float32Array> {
  const out = await decoded(file, place);
  refuseNonFinite(out, `${file.path}: ${place.tensor.name}`, place.tensor.shape);
  return out;
}

/** 1 to 4 ms a million numbers: a product of a finite number and 0 is 0, of any other NaN, and a sum keeps it. */
function refuseNonFinite(values: Float32Array, where: string, shape: readonly number[]): void {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! * 0;
  if (sum === 0) return;
  const index = values.findIndex((value) => !Number.isFinite(value));
  const places: number[] = [];
  for (let rest = index, d = shape.length - 1; d >= 0; rest = Math.floor(rest / shape[d]!), d--) places.unshift(rest % shape[d]!);
  const got = `${values[index]} at [${places.join(", ")}]`;
  throw new ModelError(expected(where, "finite numbers", got, "the weights are damaged: fetch them again, or take an earlier checkpoint"));
}

async function decoded(file: OpenedFile, place: TensorPlace): Promise<Float32Array> {
  const out = new Float32Array(elementCount(place.tensor.shape));
  if (place.tensor.type === "F32") {
    await readExactly(file, new Uint8Array(out.buffer), place.offset);
    return out;
  }
  const { bytes: blockBytes } = blockLayout[place.tensor.type];
  const step = Math.floor(CHUNK_BYTES / blockBytes) * blockBytes;
  const buffer = new Uint8Array(Math.min(step, place.bytes));
  for (let done = 0, at = 0; done < place.bytes; done += step) {
    const part = buffer.subarray(0, Math.min(step, place.bytes - done));
    await readExactly(file, part, place.offset + done);
    at = decodeBlocks(place.tensor.type, part, { out, at });
  }
  return out;
}
