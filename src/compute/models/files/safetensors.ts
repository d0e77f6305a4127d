/** safetensors: an 8-byte header length, a JSON header, then raw little-endian tensors without gaps. */
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { ModelError, expected, messageOf } from "../../../errors.ts";
import type { OpenedFile } from "./file-io.ts";
import { openFile, readExactly, writeAtomically, writeFully } from "./file-io.ts";
import type { TensorPlace } from "./read-tensor.ts";
import { encodeF16 } from "./gguf-quants.ts";
import { readTensor } from "./read-tensor.ts";
import type { StoredTensor, StoredType, TensorToWrite, WeightSource } from "./weight-source.ts";
import { blockLayout, elementCount } from "./weight-source.ts";

/** The reference implementation refuses longer headers too. */
const MAX_HEADER_BYTES = 100_000_000;

const readableTypes: ReadonlyMap<string, StoredType> = new Map([["F64", "F64"], ["F32", "F32"], ["F16", "F16"], ["BF16", "BF16"]]);
/** Types that a file may hold beside its weights (masks, position ids); listed nowhere, and refused when read. */
const otherTypeBytes: ReadonlyMap<string, number> = new Map([
  ["BOOL", 1], ["U8", 1], ["I8", 1], ["U16", 2], ["I16", 2], ["U32", 4], ["I32", 4], ["U64", 8], ["I64", 8],
]);

const entrySchema = z.object({
  dtype: z.string(),
  shape: z.array(z.int().nonnegative()),
  data_offsets: z.tuple([z.int().nonnegative(), z.int().nonnegative()]),
});
const indexSchema = z.looseObject({ weight_map: z.record(z.string(), z.string()) });

interface OpenedShard {
  readonly file: OpenedFile;
  readonly places: ReadonlyMap<string, TensorPlace>;
  /** Name to type of tensors that are no weights. */
  readonly others: ReadonlyMap<string, string>;
}

/**
 * Opens `model.safetensors`-like files, or a sharded set by its `*.safetensors.index.json`.
 * ModelError if a header is damaged, a shard is missing, or offsets do not tile the file exactly.
 */
export async function openSafetensors(path: string): Promise<WeightSource> {
  if (!path.endsWith(".json")) return weightSource(path, [await openShard(path)]);
  const weightMap = await readIndex(path);
  const shards = new Map<string, OpenedShard>();
  try {
    for (const name of new Set(weightMap.values())) {
      if (basename(name) !== name) throw new ModelError(expected(path, "shard names without a folder", JSON.stringify(name)));
      shards.set(name, await openShard(join(dirname(path), name)));
    }
    for (const [tensor, name] of weightMap) {
      const shard = shards.get(name)!;
      if (!shard.places.has(tensor) && !shard.others.has(tensor)) {
        throw new ModelError(expected(shard.file.path, `tensor ${tensor} as ${basename(path)} says`, `${shard.places.size} others`));
      }
    }
  } catch (error) {
    for (const shard of shards.values()) await shard.file.handle.close();
    throw error;
  }
  return weightSource(path, [...shards.values()]);
}

async function readIndex(path: string): Promise<Map<string, string>> {
  try {
    return new Map(Object.entries(indexSchema.parse(JSON.parse(await readFile(path, "utf8"))).weight_map));
  } catch (cause) {
    const got = cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll("\n", " ") : messageOf(cause);
    throw new ModelError(expected(path, 'a safetensors index with "weight_map"', got), { cause });
  }
}

function weightSource(path: string, shards: readonly OpenedShard[]): WeightSource {
  const tensors = new Map<string, StoredTensor>();
  const owners = new Map<string, OpenedShard>();
  for (const shard of shards) {
    for (const [name, place] of shard.places) {
      tensors.set(name, place.tensor);
      owners.set(name, shard);
    }
  }
  return {
    path,
    tensors,
    read: async (name) => {
      const shard = owners.get(name);
      if (shard === undefined) throw absent(path, name, { shards, count: tensors.size });
      return readTensor(shard.file, shard.places.get(name)!);
    },
    close: async () => {
      for (const shard of shards) await shard.file.handle.close();
    },
  };
}

function absent(path: string, name: string, { shards, count }: { shards: readonly OpenedShard[]; count: number }): ModelError {
  const other = shards.map((shard) => shard.others.get(name)).find((type) => type !== undefined);
  if (other !== undefined) return new ModelError(expected(`${path}: ${name}`, "F64, F32, F16 or BF16", other));
  return new ModelError(expected(path, `a tensor named ${name}`, `${count} tensors without it`));
}

async function openShard(path: string): Promise<OpenedShard> {
  const file = await openFile(path);
  try {
    const { entries, dataStart } = await readHeader(file);
    return { file, ...placeTensors(file, entries, dataStart) };
  } catch (error) {
    await file.handle.close();
    throw error;
  }
}

async function readHeader(file: OpenedFile): Promise<{ entries: [string, unknown][]; dataStart: number }> {
  if (file.size < 8) throw new ModelError(expected(file.path, "at least 8 bytes of header length", `${file.size} bytes`, "fetch it again"));
  const lengthBytes = new Uint8Array(8);
  await readExactly(file, lengthBytes, 0);
  const length = new DataView(lengthBytes.buffer).getBigUint64(0, true);
  if (length > BigInt(Math.min(file.size - 8, MAX_HEADER_BYTES))) {
    const want = `a header of at most ${Math.min(file.size - 8, MAX_HEADER_BYTES)} bytes`;
    throw new ModelError(expected(file.path, want, `${length} bytes`, "it is truncated or no safetensors file"));
  }
  const headerBytes = new Uint8Array(Number(length));
  await readExactly(file, headerBytes, 8);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(headerBytes));
  } catch (cause) {
    throw new ModelError(expected(file.path, "a JSON header", messageOf(cause)), { cause });
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) {
    throw new ModelError(expected(file.path, "a JSON object as header", JSON.stringify(header).slice(0, 40)));
  }
  return { entries: Object.entries(header).filter(([name]) => name !== "__metadata__"), dataStart: 8 + Number(length) };
}

/** Checks every entry against its shape, its neighbours and the file. */
function placeTensors(file: OpenedFile, entries: readonly [string, unknown][], dataStart: number): Omit<OpenedShard, "file"> {
  const places = new Map<string, TensorPlace>();
  const others = new Map<string, string>();
  const ranges: { name: string; begin: number; end: number }[] = [];
  for (const [name, raw] of entries) {
    const entry = entrySchema.safeParse(raw);
    if (!entry.success) {
      throw new ModelError(expected(`${file.path}: ${name}`, "dtype, shape and data_offsets", JSON.stringify(raw).slice(0, 80)));
    }
    const { dtype, shape } = entry.data;
    const [begin, end] = entry.data.data_offsets;
    const type = readableTypes.get(dtype);
    const valueBytes = type === undefined ? otherTypeBytes.get(dtype) : blockLayout[type].bytes;
    if (valueBytes === undefined) throw new ModelError(expected(`${file.path}: ${name}`, "dtype F64, F32, F16 or BF16", dtype));
    const bytes = elementCount(shape) * valueBytes;
    if (end - begin !== bytes) {
      const want = `${bytes} bytes for ${dtype} [${shape.join(", ")}]`;
      throw new ModelError(expected(`${file.path}: ${name}`, want, `offsets ${begin} to ${end}, ${end - begin} bytes`));
    }
    ranges.push({ name, begin, end });
    if (type === undefined) others.set(name, dtype);
    else places.set(name, { tensor: { name, shape, type }, offset: dataStart + begin, bytes });
  }
  checkTiling(file, ranges, dataStart);
  return { places, others };
}

/** Tensors must follow each other without overlap or gap, up to the end of the file. */
function checkTiling(file: OpenedFile, ranges: { name: string; begin: number; end: number }[], dataStart: number): void {
  ranges.sort((a, b) => a.begin - b.begin || a.end - b.end);
  const dataBytes = file.size - dataStart;
  let covered = 0;
  for (const { name, begin, end } of ranges) {
    if (end > dataBytes) {
      const got = `${dataBytes} bytes of data`;
      throw new ModelError(expected(`${file.path}: ${name}`, `data up to offset ${end}`, got, "the file is truncated: fetch it again"));
    }
    if (begin !== covered) {
      const problem = begin < covered ? "an overlap with the tensor before" : "a gap";
      throw new ModelError(expected(`${file.path}: ${name}`, `data from offset ${covered}`, `offset ${begin}, ${problem}`));
    }
    covered = end;
  }
  if (covered !== dataBytes) {
    throw new ModelError(expected(file.path, `${dataStart + covered} bytes as the header says`, `${file.size} bytes`));
  }
}

/** How tensors are written: exactly, or rounded to the nearest half-precision value. */
export type WrittenType = "F32" | "F16";

/**
 * Writes tensors in the order given; the same input gives the same bytes. The file appears whole or not at all.
 * ModelError if a name repeats or data does not fit its shape.
 */
export async function writeSafetensors(
  path: string,
  tensors: Iterable<TensorToWrite>,
  { metadata, type = "F32" }: { readonly metadata?: Readonly<Record<string, string>>; readonly type?: WrittenType } = {},
): Promise<void> {
  const list = [...tensors];
  const width = type === "F32" ? 4 : 2;
  const header: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  if (metadata !== undefined) header["__metadata__"] = metadata;
  let offset = 0;
  for (const { name, shape } of list) {
    if (name in header || name === "__metadata__") throw new ModelError(expected(path, "each tensor name once", `${name} again`));
    const end = offset + elementCount(shape) * width;
    header[name] = { dtype: type, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const json = Buffer.from(JSON.stringify(header), "utf8");
  const prefix = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, " ");
  prefix.writeBigUInt64LE(BigInt(prefix.length - 8), 0);
  json.copy(prefix, 8);
  await writeAtomically(path, async (handle) => {
    await writeFully(handle, prefix);
    for (const tensor of list) {
      const data = await tensorData(path, tensor);
      await writeFully(handle, type === "F16" ? encodeF16(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    }
  });
}

/** The data of a tensor to be written, checked against its shape. */
export async function tensorData(path: string, { name, shape, data }: TensorToWrite): Promise<Float32Array> {
  const values = typeof data === "function" ? await data() : data;
  if (values.length !== elementCount(shape)) {
    throw new ModelError(expected(`${path}: ${name}`, `${elementCount(shape)} values for [${shape.join(", ")}]`, `${values.length}`));
  }
  return values;
}
