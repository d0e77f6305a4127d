import { readFile, readdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSafetensors, writeSafetensors } from "../../../../src/compute/models/files/safetensors.ts";
import { golden, temporaryFolder } from "./temporary.ts";

interface RawFile {
  readonly header: unknown;
  readonly data: Uint8Array;
  /** What the first 8 bytes say; the length of the header unless given. */
  readonly length?: number;
}

async function writeRaw(path: string, { header, data, length }: RawFile): Promise<void> {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(length ?? json.length));
  await writeFile(path, Buffer.concat([prefix, json, data]));
}

async function failure(path: string): Promise<string> {
  return openSafetensors(path).then(() => "no error", (error: Error) => error.message);
}

const two = [
  { name: "b", shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) },
  { name: "a", shape: [], data: Float32Array.of(-0.5) },
];

test("what is written is read back, and bytes are a function of the input alone", async () => {
  const folder = await temporaryFolder();
  await writeSafetensors(join(folder, "x"), two, { metadata: { format: "pt" } });
  await writeSafetensors(
    join(folder, "y"),
    two.map((tensor) => ({ ...tensor, data: async () => tensor.data })),
    { metadata: { format: "pt" } },
  );
  expect(await readFile(join(folder, "x"))).toEqual(await readFile(join(folder, "y")));
  expect(await readdir(folder)).toEqual(["x", "y"]);
  const source = await openSafetensors(join(folder, "x"));
  expect([...source.tensors.values()]).toEqual([
    { name: "b", shape: [2, 2], type: "F32" },
    { name: "a", shape: [], type: "F32" },
  ]);
  expect(await source.read("b")).toEqual(Float32Array.of(1, 2, 3, 4));
  expect(await source.read("a")).toEqual(Float32Array.of(-0.5));
  await expect(source.read("c")).rejects.toThrow(/x: expected a tensor named c, got 2 tensors without it/);
  await source.close();
  await expect(source.read("a")).rejects.toThrow();
});

test("the layout of the file is the published one", async () => {
  const path = join(await temporaryFolder(), "x");
  await writeSafetensors(path, [{ name: "w", shape: [1], data: Float32Array.of(1) }]);
  const header = '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}';
  const padded = header.padEnd(Math.ceil(header.length / 8) * 8);
  const length = Buffer.from([padded.length, 0, 0, 0, 0, 0, 0, 0]);
  expect(await readFile(path)).toEqual(Buffer.concat([length, Buffer.from(padded), Buffer.from([0, 0, 0x80, 0x3f])]));
});

test("a file written by PyTorch's safetensors opens, with its metadata left aside", async () => {
  const source = await openSafetensors(join(golden, "gpt2.safetensors"));
  expect(source.tensors.get("transformer.h.0.attn.c_attn.weight")).toEqual({
    name: "transformer.h.0.attn.c_attn.weight",
    shape: [16, 48],
    type: "F32",
  });
  expect(source.tensors.has("__metadata__")).toBe(false);
  await source.close();
});

test("half, bfloat16 and double are read as float32; integers are named only when asked for", async () => {
  const path = join(await temporaryFolder(), "x");
  const data = Buffer.alloc(8 + 4 + 4 + 8);
  data.writeDoubleLE(0.1, 0);
  data.writeUInt16LE(0x3c00, 8);
  data.writeUInt16LE(0xc100, 10);
  data.writeUInt16LE(0x3f80, 12);
  data.writeUInt16LE(0xc049, 14);
  data.writeBigInt64LE(7n, 16);
  await writeRaw(path, {
    header: {
      d: { dtype: "F64", shape: [1], data_offsets: [0, 8] },
      h: { dtype: "F16", shape: [2], data_offsets: [8, 12] },
      b: { dtype: "BF16", shape: [2], data_offsets: [12, 16] },
      ids: { dtype: "I64", shape: [1], data_offsets: [16, 24] },
    },
    data,
  });
  const source = await openSafetensors(path);
  expect([...source.tensors.keys()]).toEqual(["d", "h", "b"]);
  expect(await source.read("d")).toEqual(Float32Array.of(0.1));
  expect(await source.read("h")).toEqual(Float32Array.of(1, -2.5));
  expect(await source.read("b")).toEqual(Float32Array.of(1, -3.140625));
  await expect(source.read("ids")).rejects.toThrow(/ids: expected F64, F32, F16 or BF16, got I64/);
  await source.close();
});

test("half-precision data longer than one chunk is decoded whole", async () => {
  const path = join(await temporaryFolder(), "x");
  const count = 2_500_000;
  const halves = Uint16Array.from({ length: count }, (_, i) => 0x3c00 + (i % 1024));
  const header = { h: { dtype: "F16", shape: [count], data_offsets: [0, count * 2] } };
  await writeRaw(path, { header, data: new Uint8Array(halves.buffer) });
  const source = await openSafetensors(path);
  const values = await source.read("h");
  await source.close();
  expect(values.length).toBe(count);
  const wrong = values.findIndex((value, i) => value !== 1 + (i % 1024) / 1024);
  expect(wrong).toBe(-1);
});

test("damaged files are refused with the numbers", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "x");
  await writeSafetensors(path, two);
  const { length } = await readFile(path);
  await truncate(path, length - 3);
  expect(await failure(path)).toMatch(/: a: expected data up to offset 20, got 17 bytes of data; the file is truncated/);
  await truncate(path, 5);
  expect(await failure(path)).toMatch(/x: expected at least 8 bytes of header length, got 5 bytes/);
  const data = new Uint8Array(8);
  const entry = (begin: number, end: number, dtype = "F32") => ({ dtype, shape: [(end - begin) / 4], data_offsets: [begin, end] });
  const cases: [RawFile, RegExp][] = [
    [{ header: {}, data, length: 1000 }, /expected a header of at most 10 bytes, got 1000 bytes/],
    [{ header: '{"a":', data }, /expected a JSON header, got /],
    [{ header: [1], data }, /expected a JSON object as header, got \[1\]/],
    [{ header: { a: { dtype: "F32" } }, data }, /a: expected dtype, shape and data_offsets, got \{"dtype":"F32"\}/],
    [{ header: { a: entry(0, 8, "F4") }, data }, /a: expected dtype F64, F32, F16 or BF16, got F4/],
    [{ header: { a: entry(0, 8, "F16") }, data }, /a: expected 4 bytes for F16 \[2\], got offsets 0 to 8, 8 bytes/],
    [{ header: { a: entry(0, 8), b: entry(4, 8) }, data }, /b: expected data from offset 8, got offset 4, an overlap/],
    [{ header: { a: entry(0, 4), b: entry(8, 12) }, data: new Uint8Array(12) }, /b: expected data from offset 4, got offset 8, a gap/],
    [{ header: { a: entry(0, 4) }, data }, /bytes as the header says, got \d+ bytes/],
    [{ header: { a: entry(8, 0) }, data }, /a: expected dtype, shape and data_offsets/],
  ];
  for (const [raw, message] of cases) {
    await writeRaw(path, raw);
    expect(await failure(path)).toMatch(message);
  }
  expect(await failure(join(folder, "none"))).toMatch(/none: expected a readable file, got ENOENT/);
});

test("shards are read as one, and a missing shard or tensor is named", async () => {
  const folder = await temporaryFolder();
  const index = join(folder, "model.safetensors.index.json");
  const weightMap: Record<string, string> = { a: "one.safetensors", b: "two.safetensors" };
  await writeSafetensors(join(folder, "one.safetensors"), [two[1]!]);
  await writeFile(index, JSON.stringify({ metadata: { total_size: 20 }, weight_map: weightMap }));
  expect(await failure(index)).toMatch(/two\.safetensors: expected a readable file, got ENOENT/);
  await writeSafetensors(join(folder, "two.safetensors"), [two[0]!]);
  const source = await openSafetensors(index);
  expect([...source.tensors.keys()]).toEqual(["a", "b"]);
  expect(await source.read("b")).toEqual(Float32Array.of(1, 2, 3, 4));
  expect(await source.read("a")).toEqual(Float32Array.of(-0.5));
  await source.close();
  await writeFile(index, JSON.stringify({ weight_map: { ...weightMap, c: "two.safetensors" } }));
  expect(await failure(index)).toMatch(/two\.safetensors: expected tensor c as model\.safetensors\.index\.json says, got 1 others/);
  await writeFile(index, JSON.stringify({ weight_map: { a: "../one.safetensors" } }));
  expect(await failure(index)).toMatch(/expected shard names without a folder/);
  await writeFile(index, "{}");
  expect(await failure(index)).toMatch(/expected a safetensors index with "weight_map"/);
});

test("a write that fails leaves the old file, and nothing else", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "x");
  await writeSafetensors(path, two);
  const before = await readFile(path);
  const short = [two[0]!, { name: "a", shape: [3], data: Float32Array.of(1) }];
  await expect(writeSafetensors(path, short)).rejects.toThrow(/a: expected 3 values for \[3\], got 1/);
  await expect(writeSafetensors(path, [two[0]!, two[0]!])).rejects.toThrow(/expected each tensor name once, got b again/);
  expect(await readFile(path)).toEqual(before);
  expect(await readdir(folder)).toEqual(["x"]);
  await expect(writeSafetensors(join(folder, "none", "x"), two)).rejects.toThrow(/expected a writable folder, got ENOENT/);
});
