/** One tensor from a file into float32, through a buffer of bounded size. */
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

/** Reads a tensor whole: float32 straight into the result, other types through one chunk. */
export async function readTensor(file: OpenedFile, place: TensorPlace): Promise<Float32Array> {
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
