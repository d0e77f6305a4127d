/** The head of a GGUF file: metadata and the table of tensors. Versions 2 and 3, little-endian. */
import { ModelError, expected } from "../../../errors.ts";
import type { OpenedFile } from "./file-io.ts";
import { readExactly } from "./file-io.ts";
import type { TensorPlace } from "./read-tensor.ts";
import type { StoredType } from "./weight-source.ts";
import { blockLayout, elementCount } from "./weight-source.ts";

export type GgufScalarType = "u8" | "i8" | "u16" | "i16" | "u32" | "i32" | "f32" | "bool" | "string" | "u64" | "i64" | "f64";
/** 64-bit integers beyond 2^53 are bigints; all other numbers are numbers. */
export type GgufScalar = number | bigint | boolean | string;
/** A metadata value with its stored type, so that what was read can be written again. */
export type GgufEntry =
  | { readonly type: GgufScalarType; readonly value: GgufScalar }
  | { readonly type: "array"; readonly items: GgufScalarType; readonly value: readonly GgufScalar[] }
  | { readonly type: "array"; readonly items: "array"; readonly value: readonly GgufEntry[] };
export type GgufMetadata = ReadonlyMap<string, GgufEntry>;

/** Numbers of the value types in the file, in order from 0. */
export const valueTypes = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"] as const;

/** ggml's tensor type numbers. Names that are no `StoredType` are known, and refused by name. */
export const tensorTypes: Readonly<Record<number, string>> = {
  0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
  14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
  24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
};

const MAGIC = "GGUF";
const FIRST_WINDOW = 4 * 1024 * 1024;

/** Thrown inside the parser alone: the window that was read ends inside a value. */
class WindowEnd extends Error {
  readonly needed: number;
  constructor(needed: number) {
    super("window end");
    this.needed = needed;
  }
}

class Cursor {
  readonly #view: DataView;
  readonly #bytes: Buffer;
  position = 0;
  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  /** Start of the next `count` bytes, which are consumed. */
  take(count: number): number {
    const start = this.position;
    if (start + count > this.#bytes.length) throw new WindowEnd(start + count);
    this.position = start + count;
    return start;
  }
  u32(): number {
    return this.#view.getUint32(this.take(4), true);
  }
  count(): number {
    return Number(this.#view.getBigUint64(this.take(8), true));
  }
  string(): string {
    const length = this.count();
    const start = this.take(length);
    return this.#bytes.toString("utf8", start, start + length);
  }
  scalar(type: GgufScalarType): GgufScalar {
    const view = this.#view;
    switch (type) {
      case "u8": return view.getUint8(this.take(1));
      case "i8": return view.getInt8(this.take(1));
      case "u16": return view.getUint16(this.take(2), true);
      case "i16": return view.getInt16(this.take(2), true);
      case "u32": return this.u32();
      case "i32": return view.getInt32(this.take(4), true);
      case "f32": return view.getFloat32(this.take(4), true);
      case "f64": return view.getFloat64(this.take(8), true);
      case "bool": return view.getUint8(this.take(1)) !== 0;
      case "u64": return plainNumber(view.getBigUint64(this.take(8), true));
      case "i64": return plainNumber(view.getBigInt64(this.take(8), true));
      case "string": return this.string();
    }
  }
}

/** For messages: JSON has no bigints. */
function bigints(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

function plainNumber(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(value) : value;
}

interface GgufHeader {
  readonly version: number;
  readonly metadata: GgufMetadata;
  readonly places: ReadonlyMap<string, TensorPlace>;
}

/** Reads the head through a window that grows until it fits. ModelError for a wrong magic, version, type or a truncated file. */
export async function readGgufHeader(file: OpenedFile): Promise<GgufHeader> {
  for (let window = Math.min(FIRST_WINDOW, file.size); ; ) {
    const bytes = Buffer.alloc(window);
    await readExactly(file, bytes, 0);
    try {
      return parseHeader(file, bytes);
    } catch (error) {
      if (!(error instanceof WindowEnd)) throw error;
      if (error.needed > file.size) {
        const want = `at least ${error.needed} bytes of header`;
        throw new ModelError(expected(file.path, want, `${file.size} bytes`, "the file is truncated: fetch it again"));
      }
      window = Math.min(file.size, Math.max(window * 2, error.needed));
    }
  }
}

function parseHeader(file: OpenedFile, bytes: Buffer): GgufHeader {
  const cursor = new Cursor(bytes);
  const magic = bytes.toString("latin1", cursor.take(4), 4);
  if (magic !== MAGIC) throw new ModelError(expected(file.path, `a GGUF file (magic "${MAGIC}")`, `magic ${JSON.stringify(magic)}`));
  const version = cursor.u32();
  if (version !== 2 && version !== 3) {
    const bigEndian = version === 0x02000000 || version === 0x03000000;
    throw new ModelError(expected(file.path, "GGUF version 2 or 3, little-endian", bigEndian ? "a big-endian file" : `version ${version}`));
  }
  const tensorCount = cursor.count();
  const keyCount = cursor.count();
  const metadata = new Map<string, GgufEntry>();
  for (let i = 0; i < keyCount; i++) {
    const key = cursor.string();
    if (metadata.has(key)) throw new ModelError(expected(file.path, "each metadata key once", `${key} again`));
    metadata.set(key, readEntry(file, cursor, key));
  }
  const infos = [];
  for (let i = 0; i < tensorCount; i++) infos.push(readTensorInfo(file, cursor));
  const alignment = metadata.get("general.alignment")?.value ?? 32;
  if (typeof alignment !== "number" || alignment < 1 || alignment % 8 !== 0) {
    throw new ModelError(expected(`${file.path}: general.alignment`, "a positive multiple of 8", JSON.stringify(alignment, bigints)));
  }
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  return { version, metadata, places: placeTensors(file, infos, { dataStart, alignment }) };
}

function readEntry(file: OpenedFile, cursor: Cursor, key: string): GgufEntry {
  const type = valueType(file, cursor.u32(), key);
  return type === "array" ? readArray(file, cursor, key) : { type, value: cursor.scalar(type) };
}

function readArray(file: OpenedFile, cursor: Cursor, key: string): GgufEntry {
  const items = valueType(file, cursor.u32(), key);
  const length = cursor.count();
  if (length > file.size) {
    throw new ModelError(expected(`${file.path}: ${key}`, `an array that fits ${file.size} bytes`, `${length} items`));
  }
  if (items === "array") return { type: "array", items, value: Array.from({ length }, () => readArray(file, cursor, key)) };
  const value: GgufScalar[] = [];
  for (let i = 0; i < length; i++) value.push(cursor.scalar(items));
  return { type: "array", items, value };
}

function valueType(file: OpenedFile, index: number, key: string): (typeof valueTypes)[number] {
  const type = valueTypes[index];
  if (type === undefined) throw new ModelError(expected(`${file.path}: ${key}`, "a value type from 0 to 12", `${index}`));
  return type;
}

interface TensorInfo {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: StoredType;
  readonly offset: number;
}

function readTensorInfo(file: OpenedFile, cursor: Cursor): TensorInfo {
  const name = cursor.string();
  const dimensions = cursor.u32();
  if (dimensions > 4) throw new ModelError(expected(`${file.path}: ${name}`, "at most 4 dimensions", `${dimensions}`));
  const shape = Array.from({ length: dimensions }, () => cursor.count()).reverse();
  const typeNumber = cursor.u32();
  const type = tensorTypes[typeNumber] ?? `type ${typeNumber}`;
  if (!isStoredType(type)) {
    const remedy = "fetch the model in another quantisation";
    throw new ModelError(expected(`${file.path}: ${name}`, `one of ${Object.keys(blockLayout).join(", ")}`, type, remedy));
  }
  return { name, shape, type, offset: cursor.count() };
}

function isStoredType(type: string): type is StoredType {
  return Object.hasOwn(blockLayout, type);
}

function placeTensors(
  file: OpenedFile,
  infos: readonly TensorInfo[],
  { dataStart, alignment }: { readonly dataStart: number; readonly alignment: number },
): Map<string, TensorPlace> {
  const places = new Map<string, TensorPlace>();
  let end = 0;
  for (const { name, shape, type, offset } of [...infos].sort((a, b) => a.offset - b.offset)) {
    const where = `${file.path}: ${name}`;
    if (places.has(name)) throw new ModelError(expected(file.path, "each tensor name once", `${name} again`));
    const layout = blockLayout[type];
    const rowLength = shape.at(-1) ?? 1;
    if (rowLength % layout.values !== 0) {
      throw new ModelError(expected(where, `rows of a multiple of ${layout.values} for ${type}`, `${rowLength}`));
    }
    if (offset % alignment !== 0) throw new ModelError(expected(where, `an offset that is a multiple of ${alignment}`, `${offset}`));
    if (offset < end) {
      throw new ModelError(expected(where, `data from offset ${end} on`, `offset ${offset}, an overlap with the tensor before`));
    }
    const bytes = (elementCount(shape) / layout.values) * layout.bytes;
    end = offset + bytes;
    if (dataStart + end > file.size) {
      const got = `${file.size} bytes`;
      throw new ModelError(expected(where, `a file of at least ${dataStart + end} bytes`, got, "the file is truncated: fetch it again"));
    }
    places.set(name, { tensor: { name, shape, type }, offset: dataStart + offset, bytes });
  }
  return new Map(infos.map(({ name }) => [name, places.get(name)!]));
}
