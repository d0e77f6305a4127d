import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { openModelFiles } from "../../../../src/compute/models/files/model-folder.ts";
import { writeSafetensors } from "../../../../src/compute/models/files/safetensors.ts";
import { golden, temporaryFolder } from "./temporary.ts";

async function json(folder: string, name: string, value: unknown): Promise<void> {
  await writeFile(join(folder, name), JSON.stringify(value));
}

/** A complete folder: one weight `w` of value 3. */
async function fill(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await json(folder, "config.json", { model_type: "llama" });
  await json(folder, "tokenizer.json", { model: { type: "BPE" } });
  await json(folder, "tokenizer_config.json", { chat_template: "old", eos_token: "</s>" });
  await json(folder, "generation_config.json", { eos_token_id: [1, 2] });
  await writeSafetensors(join(folder, "model.safetensors"), [{ name: "w", shape: [1], data: Float32Array.of(3) }]);
  return folder;
}

async function failure(spec: string, cacheDir?: string): Promise<string> {
  const opening = openModelFiles(spec, cacheDir === undefined ? {} : { cacheDir });
  const message = await opening.then(() => "no error", (error: Error) => error.message);
  expect(message).not.toContain("\n");
  return message;
}

test("a folder, a file in it and a cached id open the same model", async () => {
  const cacheDir = await temporaryFolder();
  const folder = await fill(join(cacheDir, "org--tiny", "main"));
  const specs: [string, string][] = [[folder, "main"], [join(folder, "model.safetensors"), "model"], ["org/tiny", "org/tiny"]];
  for (const [spec, name] of specs) {
    const files = await openModelFiles(spec, { cacheDir });
    expect(files.name).toBe(name);
    expect(files.config).toEqual({ model_type: "llama" });
    expect(files.tokenizer).toEqual({ model: { type: "BPE" } });
    expect(files.tokenizerConfig).toEqual({ chat_template: "old", eos_token: "</s>" });
    expect(files.generationConfig).toEqual({ eos_token_id: [1, 2] });
    expect(await files.weights.read("w")).toEqual(Float32Array.of(3));
    await files.close();
  }
});

test("a template in a file of its own counts; tokenizer_config and generation_config may be absent", async () => {
  const folder = await fill(await temporaryFolder());
  await json(folder, "chat_template.json", { chat_template: "older file" });
  const template = async (): Promise<unknown> => {
    const files = await openModelFiles(folder);
    await files.close();
    return files.tokenizerConfig["chat_template"];
  };
  expect(await template()).toBe("older file");
  await writeFile(join(folder, "chat_template.jinja"), "new\n");
  expect(await template()).toBe("new\n");
  const optional = ["chat_template.json", "chat_template.jinja", "tokenizer_config.json", "generation_config.json"];
  for (const name of optional) await rm(join(folder, name));
  const files = await openModelFiles(folder);
  expect([files.tokenizerConfig, files.generationConfig]).toEqual([{}, {}]);
  await files.close();
});

test("a sharded folder and a folder of one GGUF file open", async () => {
  const folder = await fill(await temporaryFolder());
  await rm(join(folder, "model.safetensors"));
  await writeSafetensors(join(folder, "model-00001-of-00001.safetensors"), [{ name: "w", shape: [1], data: Float32Array.of(4) }]);
  await json(folder, "model.safetensors.index.json", { weight_map: { w: "model-00001-of-00001.safetensors" } });
  const sharded = await openModelFiles(folder);
  expect(await sharded.weights.read("w")).toEqual(Float32Array.of(4));
  await sharded.close();
  const other = await temporaryFolder();
  await copyFile(join(golden, "qwen2.gguf"), join(other, "model.gguf"));
  const gguf = await openModelFiles(other);
  expect([gguf.name, gguf.config["model_type"], gguf.config["tie_word_embeddings"]]).toEqual([basename(other), "qwen2", true]);
  await gguf.close();
  await copyFile(join(golden, "qwen2.gguf"), join(other, "second.gguf"));
  expect(await failure(other)).toMatch(/its index, or one \.gguf file, got model\.gguf, second\.gguf; name the file itself/);
});

test("each thing that is missing is one line with what to do", async () => {
  const cacheDir = await temporaryFolder();
  expect(await failure("org/none", cacheDir)).toBe(
    `model org/none: expected a model at ${resolve("org/none")} or a pulled one at ${join(cacheDir, "org--none", "main")}, got neither; ` +
      "check the path, or run flywheel pull org/none if it is a hub id",
  );
  // The first part of this one is a folder here: no hub id was meant.
  const here = `model src/none: expected a model at ${resolve("src/none")}, got nothing there; check the path`;
  expect(await failure("src/none", cacheDir)).toBe(here);
  const unknown = /expected a folder, a \.gguf or \.safetensors file, or a hub id, got nothing at \//;
  for (const spec of ["./none", "/none/at/all", "none.gguf", "a/b/c", ""]) expect(await failure(spec, cacheDir)).toMatch(unknown);
  const folder = await fill(join(cacheDir, "model"));
  expect(await failure(join(folder, "config.json"))).toMatch(/expected a \.gguf or \.safetensors file, got a file named config\.json/);
  await writeFile(join(folder, "tokenizer_config.json"), "{");
  expect(await failure(folder)).toMatch(/tokenizer_config\.json: expected JSON, got /);
  await json(folder, "tokenizer_config.json", [1]);
  expect(await failure(folder)).toMatch(/tokenizer_config\.json: expected a JSON object, got \[1\]/);
  await rm(join(folder, "tokenizer.json"));
  expect(await failure(folder)).toMatch(/model: expected tokenizer\.json, got none .*; a model folder needs tokenizer\.json/);
  await rm(join(folder, "config.json"));
  expect(await failure(folder)).toMatch(/model: expected config\.json, got none .*; a model folder needs config\.json beside its weights/);
  await rm(join(folder, "model.safetensors"));
  expect(await failure(folder)).toMatch(/its index, or one \.gguf file, got no weight file; name the file itself/);
  await writeFile(join(folder, "model.safetensors.part"), "");
  expect(await failure(folder)).toMatch(/the download is incomplete: run flywheel pull again/);
});
