/** GGUF files (llama.cpp's format): metadata and tensors, read lazily; written as F32, F16 or Q8_0. */
import { ModelError, expected } from "../../../errors.ts";
import { openFile, writeAtomically, writeFully } from "./file-io.ts";
import type { GgufEntry, GgufMetadata, GgufScalar, GgufScalarType } from "./gguf-header.ts";
import { readGgufHeader, tensorTypes, valueTypes } from "./gguf-header.ts";
import { encodeF16, encodeQ8_0 } from "./gguf-quants.ts";
import { readTensor } from "./read-tensor.ts";
import { tensorData } from "./safetensors.ts";
import type { TensorToWrite, WeightSource } from "./weight-source.ts";
import { blockLayout, elementCount } from "./weight-source.ts";

/** Tensors under their GGUF names, beside the file's metadata. */
export interface GgufSource extends WeightSource {
  readonly version: number;
  readonly metadata: GgufMetadata;
}

/** Opens a GGUF file, reading its head only. ModelError if it is damaged, truncated, or has a type that cannot be decoded. */
export async function openGguf(path: string): Promise<GgufSource> {
  const file = await openFile(path);
  try {
    const { version, metadata, places } = await readGgufHeader(file);
    return {
      path,
      version,
      metadata,
      tensors: new Map([...places].map(([name, place]) => [name, place.tensor])),
      read: async (name) => {
        const place = places.get(name);
        if (place === undefined) throw new ModelError(expected(path, `a tensor named ${name}`, `${places.size} tensors without it`));
        return readTensor(file, place);
      },
      close: () => file.handle.close(),
    };
  } catch (error) {
    await file.handle.close();
    throw error;
  }
}

export type GgufWriteType = "F32" | "F16" | "Q8_0";
export interface GgufTensorToWrite extends TensorToWrite {
  readonly type: GgufWriteType;
}

const ALIGNMENT = 32;

/** Writes a GGUF version 3 file, tensors in the order given; it appears whole or not at all. Shapes are in PyTorch order. */
export async function writeGguf(
  path: string,
  { metadata, tensors }: { readonly metadata: GgufMetadata; readonly tensors: Iterable<GgufTensorToWrite> },
): Promise<void> {
  const list = [...tensors];
  const entries = new Map([...metadata].filter(([key]) => key !== "general.alignment"));
  const head = [Buffer.from("GGUF"), scalarBytes("u32", 3), scalarBytes("u64", list.length), scalarBytes("u64", entries.size)];
  for (const [key, entry] of entries) head.push(scalarBytes("string", key), entryBytes(entry));
  const headBytes = Buffer.concat([...head, tensorTable(path, list)]);
  await writeAtomically(path, async (handle) => {
    await writeFully(handle, headBytes);
    await writeFully(handle, Buffer.alloc(padding(headBytes.length)));
    for (const tensor of list) {
      const bytes = encode(tensor.type, await tensorData(path, tensor));
      await writeFully(handle, bytes);
      await writeFully(handle, Buffer.alloc(padding(bytes.length)));
    }
  });
}

function tensorTable(path: string, list: readonly GgufTensorToWrite[]): Buffer {
  const parts: Buffer[] = [];
  const seen = new Set<string>();
  let offset = 0;
  for (const { name, shape, type } of list) {
    const layout = blockLayout[type];
    if (seen.has(name)) throw new ModelError(expected(path, "each tensor name once", `${name} again`));
    seen.add(name);
    if ((shape.at(-1) ?? 1) % layout.values !== 0) {
      throw new ModelError(expected(`${path}: ${name}`, `rows of a multiple of ${layout.values} for ${type}`, `[${shape.join(", ")}]`));
    }
    parts.push(scalarBytes("string", name), scalarBytes("u32", shape.length));
    for (const size of [...shape].reverse()) parts.push(scalarBytes("u64", size));
    parts.push(scalarBytes("u32", typeNumber(type)), scalarBytes("u64", offset));
    const bytes = (elementCount(shape) / layout.values) * layout.bytes;
    offset += bytes + padding(bytes);
  }
  return Buffer.concat(parts);
}

function typeNumber(type: GgufWriteType): number {
  return Number(Object.keys(tensorTypes).find((key) => tensorTypes[Number(key)] === type));
}

function padding(length: number): number {
  return (ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT;
}

function encode(type: GgufWriteType, data: Float32Array): Uint8Array {
  switch (type) {
    case "F32": return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    case "F16": return encodeF16(data);
    case "Q8_0": return encodeQ8_0(data);
  }
}

function entryBytes(entry: GgufEntry): Buffer {
  const type = scalarBytes("u32", valueTypes.indexOf(entry.type));
  return Buffer.concat([type, entry.type === "array" ? arrayBytes(entry) : scalarBytes(entry.type, entry.value)]);
}

function arrayBytes(entry: Extract<GgufEntry, { type: "array" }>): Buffer {
  const head = [scalarBytes("u32", valueTypes.indexOf(entry.items)), scalarBytes("u64", entry.value.length)];
  if (entry.items !== "array") return Buffer.concat([...head, ...entry.value.map((value) => scalarBytes(entry.items, value))]);
  return Buffer.concat([...head, ...entry.value.map((inner) => (inner.type === "array" ? arrayBytes(inner) : entryBytes(inner)))]);
}

function scalarBytes(type: GgufScalarType, value: GgufScalar): Buffer {
  const bytes = Buffer.alloc(8);
  const number = Number(value);
  switch (type) {
    case "u8": bytes.writeUInt8(number); return bytes.subarray(0, 1);
    case "i8": bytes.writeInt8(number); return bytes.subarray(0, 1);
    case "bool": bytes.writeUInt8(value === true ? 1 : 0); return bytes.subarray(0, 1);
    case "u16": bytes.writeUInt16LE(number); return bytes.subarray(0, 2);
    case "i16": bytes.writeInt16LE(number); return bytes.subarray(0, 2);
    case "u32": bytes.writeUInt32LE(number); return bytes.subarray(0, 4);
    case "i32": bytes.writeInt32LE(number); return bytes.subarray(0, 4);
    case "f32": bytes.writeFloatLE(number); return bytes.subarray(0, 4);
    case "f64": bytes.writeDoubleLE(number); return bytes;
    case "u64": bytes.writeBigUInt64LE(BigInt(value)); return bytes;
    case "i64": bytes.writeBigInt64LE(BigInt(value)); return bytes;
    case "string": {
      const text = Buffer.from(String(value), "utf8");
      bytes.writeBigUInt64LE(BigInt(text.length));
      return Buffer.concat([bytes, text]);
    }
  }
}
