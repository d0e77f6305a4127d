import { copyFile, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openGguf, writeGguf } from "../../../../src/compute/models/files/gguf.ts";
import type { GgufEntry } from "../../../../src/compute/models/files/gguf-header.ts";
import { decodeBlocks, encodeF16, encodeQ8_0 } from "../../../../src/compute/models/files/gguf-quants.ts";
import type { StoredType } from "../../../../src/compute/models/files/weight-source.ts";
import { golden, temporaryFolder } from "./temporary.ts";

async function floats(name: string): Promise<Float32Array> {
  return new Float32Array(new Uint8Array(await readFile(join(golden, name))).buffer);
}

async function failure(path: string): Promise<string> {
  return openGguf(path).then(() => "no error", (error: Error) => error.message);
}

const types: StoredType[] = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"];
test.each(types)("%s blocks decode bit for bit as in the gguf package", async (type) => {
  const blocks = new Uint8Array(await readFile(join(golden, `${type}.blocks`)));
  const want = await floats(`${type}.values`);
  const out = new Float32Array(want.length + 5);
  expect(decodeBlocks(type, blocks, { out, at: 5 })).toBe(out.length);
  expect(new Uint8Array(out.buffer, 20)).toEqual(new Uint8Array(want.buffer));
});

test("Q8_0 and half precision are encoded as the reference does, ties to even and overflow to infinity", async () => {
  expect(encodeQ8_0(await floats("Q8_0.input"))).toEqual(new Uint8Array(await readFile(join(golden, "Q8_0.blocks"))));
  expect(encodeF16(await floats("half.input"))).toEqual(new Uint8Array(await readFile(join(golden, "half.output"))));
});

test("every metadata type and tensor of a file written by the gguf package is read", async () => {
  const source = await openGguf(join(golden, "mixed.gguf"));
  expect(source.version).toBe(3);
  expect([...source.metadata]).toEqual([
    ["general.architecture", { type: "string", value: "llama" }],
    ["t.u8", { type: "u8", value: 255 }],
    ["t.i8", { type: "i8", value: -128 }],
    ["t.u16", { type: "u16", value: 65535 }],
    ["t.i16", { type: "i16", value: -32768 }],
    ["t.u32", { type: "u32", value: 4294967295 }],
    ["t.i32", { type: "i32", value: -2147483648 }],
    ["t.f32", { type: "f32", value: 0.5 }],
    ["t.bool", { type: "bool", value: true }],
    ["t.string", { type: "string", value: "héllo 世界" }],
    ["t.u64", { type: "u64", value: 9223372036854775809n }],
    ["t.i64", { type: "i64", value: -1099511627776 }],
    ["t.f64", { type: "f64", value: 0.1 }],
    ["t.strings", { type: "array", items: "string", value: ["a", "", "ß"] }],
    ["t.ints", { type: "array", items: "i32", value: [1, -2, 3] }],
    ["t.bools", { type: "array", items: "bool", value: [true, false] }],
  ]);
  expect([...source.tensors.values()]).toEqual([
    { name: "plain", shape: [2, 3], type: "F32" },
    { name: "half", shape: [4], type: "F16" },
    { name: "blocks", shape: [4, 128], type: "Q8_0" },
  ]);
  expect(await source.read("plain")).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
  expect(await source.read("half")).toEqual(Float32Array.of(0, 0.25, 0.5, 0.75));
  expect(await source.read("blocks")).toEqual(await floats("Q8_0.values"));
  await expect(source.read("other")).rejects.toThrow(/mixed\.gguf: expected a tensor named other, got 3 tensors without it/);
  await source.close();
});

test("a file written again from what was read has the same bytes", async () => {
  const source = await openGguf(join(golden, "mixed.gguf"));
  const path = join(await temporaryFolder(), "copy.gguf");
  const tensors = [...source.tensors.values()].map(({ name, shape, type }) => ({
    name,
    shape,
    type: type as "F32" | "F16" | "Q8_0",
    data: () => source.read(name),
  }));
  await writeGguf(path, { metadata: source.metadata, tensors });
  await source.close();
  expect(await readFile(path)).toEqual(await readFile(join(golden, "mixed.gguf")));
});

test("arrays of arrays survive a round trip; rows that do not fill blocks are refused", async () => {
  const path = join(await temporaryFolder(), "nested.gguf");
  const nested: GgufEntry = {
    type: "array",
    items: "array",
    value: [{ type: "array", items: "u8", value: [1, 2] }, { type: "array", items: "string", value: ["x"] }],
  };
  await writeGguf(path, { metadata: new Map([["nested", nested]]), tensors: [] });
  const source = await openGguf(path);
  expect(source.metadata.get("nested")).toEqual(nested);
  await source.close();
  const tensor = { name: "w", shape: [2, 33], type: "Q8_0", data: new Float32Array(66) } as const;
  const writing = writeGguf(path, { metadata: new Map(), tensors: [tensor] });
  await expect(writing).rejects.toThrow(/w: expected rows of a multiple of 32 for Q8_0, got \[2, 33\]/);
});

test("a head longer than the first window is read, and its truncation seen", async () => {
  const path = join(await temporaryFolder(), "long.gguf");
  const value = Array.from({ length: 400_000 }, (_, i) => `token ${i}`);
  const metadata = new Map<string, GgufEntry>([["tokens", { type: "array", items: "string", value }]]);
  await writeGguf(path, { metadata, tensors: [{ name: "w", shape: [2], type: "F16", data: Float32Array.of(1, -2) }] });
  const source = await openGguf(path);
  expect(source.metadata.get("tokens")?.value).toEqual(value);
  expect(await source.read("w")).toEqual(Float32Array.of(1, -2));
  await source.close();
  await truncate(path, 5_000_000);
  expect(await failure(path)).toMatch(/expected at least 50000\d\d bytes of header, got 5000000 bytes/);
});

test("a truncated file, a wrong magic and other versions are refused with the numbers", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "x.gguf");
  await copyFile(join(golden, "mixed.gguf"), path);
  await truncate(path, 1100);
  expect(await failure(path)).toMatch(/x\.gguf: blocks: expected a file of at least 1216 bytes, got 1100 bytes; the file is truncated/);
  await truncate(path, 100);
  expect(await failure(path)).toMatch(/x\.gguf: expected at least \d+ bytes of header, got 100 bytes; the file is truncated/);
  await truncate(path, 2);
  expect(await failure(path)).toMatch(/expected at least 4 bytes of header, got 2 bytes/);
  const whole = await readFile(join(golden, "mixed.gguf"));
  const variant = async (change: (bytes: Buffer) => void): Promise<string> => {
    const bytes = Buffer.from(whole);
    change(bytes);
    await writeFile(path, bytes);
    return failure(path);
  };
  expect(await variant((bytes) => bytes.write("GGML"))).toMatch(/expected a GGUF file \(magic "GGUF"\), got magic "GGML"/);
  expect(await variant((bytes) => bytes.writeUInt32LE(1, 4))).toMatch(/expected GGUF version 2 or 3, little-endian, got version 1/);
  expect(await variant((bytes) => bytes.writeUInt32BE(3, 4))).toMatch(/got a big-endian file/);
  expect(await variant((bytes) => bytes.writeBigUInt64LE(2n ** 40n, 24))).toMatch(/expected at least \d+ bytes of header, got 1216 bytes/);
  const strings = whole.indexOf("t.strings") + 9;
  const tooMany = await variant((bytes) => bytes.writeBigUInt64LE(10n ** 12n, strings + 8));
  expect(tooMany).toMatch(/t\.strings: expected an array that fits 1216 bytes, got 1000000000000 items/);
  expect(await variant((bytes) => bytes.writeUInt32LE(13, strings))).toMatch(/t\.strings: expected a value type from 0 to 12, got 13/);
});

test("tensors of other types, or that overlap, are refused by name", async () => {
  const path = join(await temporaryFolder(), "x.gguf");
  const whole = await readFile(join(golden, "mixed.gguf"));
  const half = whole.indexOf("half") + 4; // then u32 dimensions, u64 size, u32 type, u64 offset
  const variant = async (type: number, offset: bigint): Promise<string> => {
    const bytes = Buffer.from(whole);
    bytes.writeUInt32LE(type, half + 12);
    bytes.writeBigUInt64LE(offset, half + 16);
    await writeFile(path, bytes);
    return failure(path);
  };
  expect(await variant(23, 32n)).toMatch(/half: expected one of F64, F32, .*, got IQ4_XS; fetch the model in another quantisation/);
  expect(await variant(99, 32n)).toMatch(/half: expected one of .*, got type 99/);
  expect(await variant(2, 32n)).toMatch(/half: expected rows of a multiple of 32 for Q4_0, got 4/);
  expect(await variant(1, 0n)).toMatch(/expected data from offset \d+ on, got offset 0, an overlap with the tensor before/);
  expect(await variant(1, 40n)).toMatch(/half: expected an offset that is a multiple of 32, got 40/);
  expect(await variant(1, 3200n)).toMatch(/half: expected a file of at least \d+ bytes, got 1216 bytes/);
});
