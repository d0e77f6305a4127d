import { mkdir, readFile, readdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-node";
import { expect, test } from "vitest";
import { openModelFiles } from "../../src/compute/models/files/model-folder.ts";
import { openSafetensors } from "../../src/compute/models/files/safetensors.ts";
import { mergeLora } from "../../src/compute/models/lora.ts";
import { familyOf, loadParameters } from "../../src/compute/models/parameters.ts";
import { openPolicy, type OpenedPolicy } from "../../src/compute/policy/open.ts";
import { exportModel } from "../../src/train/export.ts";
import { openTrainedPolicy } from "../../src/train/trained.ts";
import { TINY_LORA, temporaryFolder, writeTinyModel, writeTinyRun, type TinyFamily } from "../fakes/model-folders.ts";
import { difference } from "../fakes/golden.ts";

const families: readonly TinyFamily[] = ["llama", "qwen2", "qwen3", "gpt2"];
const rows = [Int32Array.of(5, 300, 17, 42, 511, 8, 99, 20), Int32Array.of(1, 2, 3)];

/** Log-probs of every token of the rows but the first. */
async function logprobsOf(policy: OpenedPolicy): Promise<number[]> {
  const trained = (ids: Int32Array): Int32Array => Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1);
  const scores = await policy.engine.logprobs(rows.map((ids) => ({ ids, trained: trained(ids), fields: {}, temperature: 1 })));
  await policy[Symbol.asyncDispose]();
  return scores.flatMap((row) => [...row]);
}

async function tiny(family: TinyFamily) {
  const home = await temporaryFolder();
  const model = await writeTinyModel(join(home, "base"), family);
  return { home, model, run: await writeTinyRun(join(home, "run"), model) };
}

test.each(families)("%s: safetensors and GGUF of a LoRA run reopen as the policy that was trained", async (family) => {
  const { home, model, run } = await tiny(family);
  const want = await logprobsOf(await openTrainedPolicy(run.folder));
  const base = await logprobsOf(await openPolicy(model));
  expect(difference(base, want).max).toBeGreaterThan(0.1);
  const made = await exportModel(run.folder, { to: join(home, "out") });
  expect(made).toMatchObject({ format: "safetensors", type: "F32", model: "base", checkpoint: { name: "step-000002", step: 2 } });
  expect(difference(await logprobsOf(await openPolicy(made.path)), want).max).toBeLessThan(2e-5);
  const gguf = await exportModel(run.folder, { to: join(home, "out.gguf"), type: "F32" });
  expect(difference(await logprobsOf(await openPolicy(gguf.path)), want).max).toBeLessThan(2e-5);
  expect((await readdir(home)).sort()).toEqual(["base", "out", "out.gguf", "run"]);
});

test.each(families)("%s: weights that nothing was added to come back to the last bit", async (family) => {
  const { home, model } = await tiny(family);
  const { path } = await exportModel(model, { to: join(home, "copy") });
  const [found, want] = [await openSafetensors(join(path, "model.safetensors")), await openSafetensors(join(model, "model.safetensors"))];
  expect([...found.tensors]).toEqual([...want.tensors]);
  for (const name of want.tensors.keys()) expect(await found.read(name)).toEqual(await want.read(name));
  await found.close();
  await want.close();
  const json = async (folder: string): Promise<unknown> => JSON.parse(await readFile(join(folder, "tokenizer.json"), "utf8"));
  expect(await json(path)).toEqual(await json(model));
});

test.each(families)("%s: the ONNX file gives the engine's log-probs for rows side by side", async (family) => {
  const { home, run } = await tiny(family);
  const want = await logprobsOf(await openTrainedPolicy(run.folder));
  const { path } = await exportModel(run.folder, { to: join(home, "out.onnx") });
  const session = await ort.InferenceSession.create(path);
  expect([session.inputNames, session.outputNames]).toEqual([["ids"], ["logits"]]);
  // Both rows in one batch; what follows the end of the short one cannot change it.
  const ids = BigInt64Array.from([...rows[0]!, ...rows[1]!, 0, 0, 0, 0, 0].map(BigInt));
  const { logits } = await session.run({ ids: new ort.Tensor("int64", ids, [2, 8]) });
  await session.release();
  expect(logits!.dims).toEqual([2, 8, 512]);
  const values = logits!.data as Float32Array;
  const found = rows.flatMap((row, r) =>
    [...row.subarray(1)].map((id, t) => {
      const at = values.subarray((r * 8 + t) * 512, (r * 8 + t + 1) * 512);
      const top = Math.max(...at);
      return at[id]! - top - Math.log(at.reduce((sum, value) => sum + Math.exp(value - top), 0));
    }),
  );
  expect(difference(found, want).max).toBeLessThan(2e-5);
});

test.each(families)("%s: the PEFT adapter's product is the one that merging adds", async (family) => {
  const { home, model, run } = await tiny(family);
  const { path } = await exportModel(run.folder, { to: join(home, "adapter"), format: "peft" });
  const config = JSON.parse(await readFile(join(path, "adapter_config.json"), "utf8")) as Record<string, never>;
  expect(config).toMatchObject({ peft_type: "LORA", r: 4, lora_alpha: 8, base_model_name_or_path: model });
  expect(config["fan_in_fan_out"]).toBe(family === "gpt2");
  const adapter = await openSafetensors(join(path, "adapter_model.safetensors"));
  const files = await openModelFiles(model);
  const parts = familyOf(files.config);
  const base = await loadParameters(parts, parts.read(files.config), files.weights);
  await files.close();
  const merged = mergeLora(base, run.weights.get(2)!, TINY_LORA);
  for (const name of ["layers.1.q", "layers.0.v", "layers.1.down"]) {
    const stored = parts.storedAs(`${name}.weight`);
    const module = `base_model.model.${stored.name.replace(/\.weight$/, "")}`;
    const [a, b] = [await adapter.read(`${module}.lora_A.weight`), await adapter.read(`${module}.lora_B.weight`)];
    const rank = adapter.tensors.get(`${module}.lora_A.weight`)!.shape[0]!;
    const columns = a.length / rank;
    const { floats, shape } = base.get(`${name}.weight`)!;
    const first = (stored.part?.index ?? 0) * shape[0]!;
    // lora_alpha / r is 2 with and without the patterns.
    const found = Array.from(floats, (value, i) => {
      const [row, column] = [first + Math.floor(i / columns), i % columns];
      let sum = 0;
      for (let r = 0; r < rank; r++) sum += b[row * rank + r]! * a[r * columns + column]!;
      return value + 2 * sum;
    });
    expect(difference(found, merged.get(`${name}.weight`)!.floats).max).toBeLessThan(1e-6);
  }
  await adapter.close();
});

test("GPT-2's fused projection gets one adapter of three times the rank and alpha", async () => {
  const { home, run } = await tiny("gpt2");
  const { path } = await exportModel(run.folder, { to: join(home, "adapter"), format: "peft" });
  const config = JSON.parse(await readFile(join(path, "adapter_config.json"), "utf8")) as Record<string, unknown>;
  expect(config["target_modules"]).toEqual(["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"]);
  expect([config["rank_pattern"], config["alpha_pattern"]]).toEqual([{ "attn.c_attn": 12 }, { "attn.c_attn": 24 }]);
});

test("a run that trained all weights exports those; best and a step are found", async () => {
  const home = await temporaryFolder();
  const model = await writeTinyModel(join(home, "base"), "llama");
  const run = await writeTinyRun(join(home, "run"), model, null);
  for (const [checkpoint, step] of [["best", 1], [2, 2], ["latest", 2]] as const) {
    const made = await exportModel(run.folder, { to: join(home, `out-${checkpoint}`), checkpoint });
    expect(made.checkpoint?.step).toBe(step);
    const source = await openSafetensors(join(made.path, "model.safetensors"));
    expect(await source.read("model.norm.weight")).toEqual(run.weights.get(step)!.get("finalNorm.weight")!.floats);
    await source.close();
  }
  await expect(exportModel(run.folder, { to: join(home, "adapter"), format: "peft" })).rejects.toThrow(
    "export as peft: expected a run that trained a LoRA adapter, got a run that trained all weights; export it as safetensors",
  );
});

test("a target that is there is never touched", async () => {
  const { home, run } = await tiny("llama");
  await mkdir(join(home, "taken"));
  await writeFile(join(home, "taken", "notes.txt"), "mine");
  await writeFile(join(home, "taken.gguf"), "mine");
  await expect(exportModel(run.folder, { to: join(home, "taken") })).rejects.toThrow(
    "expected a path that is free, got a folder that is there",
  );
  await expect(exportModel(run.folder, { to: join(home, "taken.gguf") })).rejects.toThrow("got a file that is there");
  expect(await readFile(join(home, "taken", "notes.txt"), "utf8")).toBe("mine");
  await mkdir(join(home, "empty"));
  expect((await exportModel(run.folder, { to: join(home, "empty") })).path).toBe(join(home, "empty"));
});

test("a failed or interrupted export leaves nothing behind", async () => {
  const { home, run } = await tiny("llama");
  await expect(exportModel(run.folder, { to: join(home, "x.onnx"), signal: AbortSignal.abort(new Error("stop")) })).rejects.toThrow("stop");
  await expect(exportModel(run.folder, { to: join(home, "x.gguf"), base: join(home, "nowhere") })).rejects.toThrow(
    "got nothing at",
  );
  expect((await readdir(home)).sort()).toEqual(["base", "run"]);
});

test("a truncated checkpoint is refused by name, and passed over by latest", async () => {
  const { home, run } = await tiny("llama");
  await truncate(join(run.folder, "checkpoints/step-000002/weights.safetensors"), 1000);
  await expect(exportModel(run.folder, { to: join(home, "out"), checkpoint: 2 })).rejects.toThrow(
    /^checkpoint step-000002, file weights\.safetensors: expected \d+ bytes, got 1000 bytes$/,
  );
  expect((await exportModel(run.folder, { to: join(home, "out") })).checkpoint).toEqual({ name: "step-000001", step: 1 });
  await truncate(join(run.folder, "checkpoints/step-000001/weights.safetensors"), 1000);
  await expect(exportModel(run.folder, { to: join(home, "again") })).rejects.toThrow("expected an intact checkpoint");
  await expect(exportModel(run.folder, { to: join(home, "again"), checkpoint: 7 })).rejects.toThrow(
    "a checkpoint of step 7, got none; there are 1, 2",
  );
});

test("an adapter does not go on another base", async () => {
  const { home, run } = await tiny("llama");
  const wide = await writeTinyModel(join(home, "wide"), "llama", { intermediate_size: 96 });
  await expect(exportModel(run.folder, { to: join(home, "out"), base: wide })).rejects.toThrow(
    /layers\.0\.gate\.loraB: expected shape \[96, 4\], got \[64, 4\]; it was trained on another base model/,
  );
  const shallow = await writeTinyModel(join(home, "shallow"), "llama", { num_hidden_layers: 1 });
  await expect(exportModel(run.folder, { to: join(home, "out"), base: shallow })).rejects.toThrow(
    /the 14 tensors of this base model, got also layers\.1\./,
  );
});

test("what does not go together is refused", async () => {
  const { home, model, run } = await tiny("llama");
  const refused = (source: string, options: object): Promise<unknown> =>
    exportModel(source, { to: join(home, "out"), ...options }).then(() => "exported", (error: Error) => error.message);
  expect(await refused(run.folder, { type: "Q8_0" })).toBe("export as safetensors: expected type F32 or F16, got Q8_0");
  expect(await refused(run.folder, { format: "gguf" })).toBe("export as gguf: expected a file name that ends in .gguf, got out");
  const named = await refused(run.folder, { to: join(home, "x.gguf"), format: "peft" });
  expect(named).toBe("export as peft: expected the name of a folder, got x.gguf; the folder then holds the adapter and its configuration");
  expect(await refused(model, { checkpoint: "best" })).toContain("expected a run folder, since a checkpoint is named, got a model");
  expect(await refused(model, { format: "peft" })).toContain("got a model without one");
});
