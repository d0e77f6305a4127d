import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exportGguf } from "../../../../src/compute/models/files/gguf-export.ts";
import { openGguf } from "../../../../src/compute/models/files/gguf.ts";
import { openModelFiles } from "../../../../src/compute/models/files/model-folder.ts";
import type { ModelFiles } from "../../../../src/compute/models/files/model-folder.ts";
import { golden, temporaryFolder } from "./temporary.ts";

/** Every tensor under its GGUF name. */
async function rawTensors(path: string): Promise<Record<string, { shape: readonly number[]; values: Float32Array }>> {
  const source = await openGguf(path);
  const all: Record<string, { shape: readonly number[]; values: Float32Array }> = {};
  for (const [name, { shape }] of source.tensors) all[name] = { shape, values: await source.read(name) };
  await source.close();
  return all;
}

const models = ["smollm", "llama3", "qwen2", "qwen3", "gpt2"];

test.each(models)("%s: an exported file has the converter's tensors and opens as the same model", async (name) => {
  const path = join(await temporaryFolder(), `${name}.gguf`);
  const original = await openModelFiles(join(golden, `${name}.gguf`));
  await exportGguf(path, original, "F32");
  const again = await openModelFiles(path);
  const said = ({ name: called, config, tokenizer, tokenizerConfig, generationConfig }: ModelFiles) =>
    ({ called, config, tokenizer, tokenizerConfig, generationConfig });
  expect(said(again)).toEqual(said(original));
  const [found, want] = [await rawTensors(path), await rawTensors(join(golden, `${name}.gguf`))];
  expect(Object.keys(found).sort()).toEqual(Object.keys(want).sort());
  for (const [tensor, { shape, values }] of Object.entries(want)) {
    expect(found[tensor]!.shape).toEqual(shape);
    // Rotary divisors are computed in double precision here and in float32 by PyTorch.
    if (tensor !== "rope_freqs.weight") expect(found[tensor]!.values, tensor).toEqual(values);
    else values.forEach((value, i) => expect(Math.abs(found[tensor]!.values[i]! / value - 1)).toBeLessThan(1e-6));
  }
  await original.close();
  await again.close();
});

/** The SmolLM model as a Hugging Face folder of transformers 5, its tokenizer with the published Digits splitter. */
async function smollmFolder(): Promise<string> {
  const folder = join(await temporaryFolder(), "smollm");
  await mkdir(folder);
  const gguf = await openModelFiles(join(golden, "smollm.gguf"));
  await gguf.close();
  const { config } = JSON.parse(await readFile(join(golden, "smollm.json"), "utf8")) as { config: unknown };
  const digits = { type: "Digits", individual_digits: true };
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const tokenizer = { ...gguf.tokenizer, pre_tokenizer: { type: "Sequence", pretokenizers: [digits, bytes] } };
  await copyFile(join(golden, "smollm.safetensors"), join(folder, "model.safetensors"));
  await writeFile(join(folder, "config.json"), JSON.stringify(config));
  await writeFile(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  await writeFile(join(folder, "tokenizer_config.json"), JSON.stringify({ ...gguf.tokenizerConfig, eos_token: { content: "<|end|>" } }));
  return folder;
}

test("a Hugging Face folder is exported; matrices are quantised, vectors are not", async () => {
  const folder = await smollmFolder();
  const files = await openModelFiles(folder);
  const path = join(folder, "q8.gguf");
  await exportGguf(path, files, "Q8_0");
  await files.close();
  const source = await openGguf(path);
  const types = (name: string): string | undefined => source.tensors.get(name)?.type;
  // Rows of 16 do not fill a block of 32; the down projection's rows of 32 do.
  expect([types("token_embd.weight"), types("blk.0.ffn_down.weight"), types("output_norm.weight")]).toEqual(["F16", "Q8_0", "F32"]);
  expect(source.metadata.get("general.file_type")).toEqual({ type: "u32", value: 7 });
  expect(source.metadata.get("tokenizer.ggml.pre")).toEqual({ type: "string", value: "smollm" });
  expect(source.metadata.get("tokenizer.ggml.eos_token_id")).toEqual({ type: "u32", value: 1 });
  const want = (await rawTensors(join(golden, "smollm.gguf")))["blk.0.ffn_down.weight"]!.values;
  const largest = want.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const found = await source.read("blk.0.ffn_down.weight");
  found.forEach((value, i) => expect(Math.abs(value - want[i]!)).toBeLessThan(largest / 127));
  await source.close();
});

test("what GGUF has no place for is refused", async () => {
  const files = await openModelFiles(join(golden, "smollm.gguf"));
  const path = join(await temporaryFolder(), "x.gguf");
  const refusals: [Partial<ModelFiles>, RegExp][] = [
    [{ config: { ...files.config, model_type: "mamba" } }, /model_type: expected llama, qwen2, qwen3 or gpt2, got "mamba"/],
    [{ config: { ...files.config, hidden_size: null } }, /config\.json: expected a number hidden_size, got null/],
    [{ config: { ...files.config, rope_scaling: { rope_type: "dynamic" } } }, /expected default, linear, yarn or llama3, got "dynamic"/],
    [{ tokenizer: { ...files.tokenizer, pre_tokenizer: { type: "Whitespace" } } }, /expected a byte-level BPE .*, got another tokenizer/],
  ];
  for (const [change, message] of refusals) await expect(exportGguf(path, { ...files, ...change }, "F16")).rejects.toThrow(message);
  await files.close();
});
