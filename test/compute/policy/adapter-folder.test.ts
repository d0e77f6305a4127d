/** Adapters as PEFT folders: what is written, read back to the last bit, and refused. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { baseFingerprint } from "../../../src/compute/models/base-fingerprint.ts";
import { openSafetensors, writeSafetensors } from "../../../src/compute/models/files/safetensors.ts";
import type { LoraOptions } from "../../../src/compute/models/lora.ts";
import { LocalEngine } from "../../../src/compute/policy/local/engine.ts";
import { hashOf } from "../../../src/compute/policy/local/state.ts";
import { HostTensor } from "../../../src/compute/tensor/host.ts";
import { normal, rng } from "../../../src/random.ts";
import type { AdapterOptions } from "../../../src/types.ts";
import { goldenEngine, storedLora, trainRow } from "../../fakes/engines.ts";
import { goldenFolder, goldenModel } from "../../fakes/golden.ts";

const opened: LocalEngine[] = [];
const folders: string[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
  for (const folder of folders) await rm(folder, { recursive: true });
}, 60_000);

async function open(name: string, train: Parameters<typeof goldenEngine>[1]): Promise<LocalEngine> {
  const { engine } = await goldenEngine(name, train);
  opened.push(engine);
  return engine;
}
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "peft-"));
  folders.push(path);
  return path;
}
const reward: AdapterOptions = { from: "policy", rank: storedLora.rank, alpha: storedLora.alpha, scalarHead: true, trained: true, seed: 7 };
const rows = [trainRow([5, 3, 8, 2, 60, 11], [2, 4, 5])];
const bitsOf = (engine: LocalEngine, name: string): string => hashOf(engine.model.parametersOf(name));

/** Every matrix and head of an adapter becomes random, so that a part that is lost or swapped shows. */
function scramble(engine: LocalEngine, name: string): void {
  let n = 0;
  for (const [key, { floats }] of engine.model.parametersOf(name))
    if (/lora|score/.test(key)) for (let i = 0; i < floats.length; i++) floats[i] = 0.05 * normal(rng(4), n++);
}

for (const name of ["llama", "qwen3", "gpt2"]) {
  test(`${name}: saved and loaded to the last bit, under another name and into a trained one`, async () => {
    const engine = await open(name, "fresh-lora");
    engine.addAdapter("reward", reward);
    scramble(engine, "reward");
    const path = await folder();
    await engine.saveAdapter("reward", path);
    const values = await engine.values(rows, { adapter: "reward" });
    await engine.loadAdapter("judge", path);
    expect(await engine.values(rows, { adapter: "judge" })).toEqual(values);
    expect(() => engine.directions("judge")).toThrow("got judge, which is frozen");
    const other = await open(name, "fresh-lora");
    other.addAdapter("reward", reward);
    expect(await other.values(rows, { adapter: "reward" })).not.toEqual(values);
    await other.loadAdapter("reward", path);
    expect(bitsOf(other, "reward")).toBe(bitsOf(engine, "reward"));
    expect(other.directions("reward")).toBeDefined();
    const again = await folder();
    await other.saveAdapter("reward", again);
    for (const file of ["adapter_model.safetensors", "adapter_config.json", "flywheel_adapter.json"])
      expect(await readFile(join(again, file))).toEqual(await readFile(join(path, file)));
  });
}

test("the folder has PEFT's names and settings; a head makes it a sequence classifier", async () => {
  const engine = await open("llama", "stored-lora");
  engine.addAdapter("reward", reward);
  const [withHead, without] = [await folder(), await folder()];
  await engine.saveAdapter("reward", withHead);
  await engine.saveAdapter("policy", without);
  const names = async (path: string): Promise<string[]> => {
    const file = await openSafetensors(join(path, "adapter_model.safetensors"));
    await file.close();
    return [...file.tensors.keys()].sort();
  };
  const stored = await names(join(goldenFolder, "lora/llama"));
  expect(await names(without)).toEqual(stored);
  expect(await names(withHead)).toEqual([...stored, "base_model.model.score.weight"].sort());
  const config = async (path: string): Promise<unknown> => JSON.parse(await readFile(join(path, "adapter_config.json"), "utf8"));
  const common = { peft_type: "LORA", r: 4, lora_alpha: 8, bias: "none", base_model_name_or_path: "llama" };
  expect(await config(without)).toMatchObject({ ...common, task_type: "CAUSAL_LM", modules_to_save: null });
  expect(await config(withHead)).toMatchObject({ ...common, task_type: "SEQ_CLS", modules_to_save: ["score"] });
});

test("a folder that PEFT's own format describes is read without a note: the stored adapter", async () => {
  const engine = await open("llama", "stored-lora");
  await engine.loadAdapter("same", join(goldenFolder, "lora/llama"));
  expect(await engine.logprobs(rows, { adapter: "same" })).toEqual(await engine.logprobs(rows));
  expect(hashOf(engine.model.parametersOf("same"))).toBe(hashOf(engine.model.parametersOf("policy")));
});

test("the policy's own adapter is loaded in place, and must be published", async () => {
  const [engine, fresh] = [await open("llama", "stored-lora"), await open("llama", "fresh-lora")];
  const path = await folder();
  await engine.saveAdapter("policy", path);
  await fresh.loadAdapter("policy", path);
  const request = { prompt: [1, 2, 3], count: 1, maxTokens: 4, temperature: 0, stopIds: [], keys: [rng(1)] };
  await expect(fresh.sample(request)).rejects.toThrow("not published");
  expect(await fresh.publish()).toBe(1);
  expect(fresh.weightsHash()).toBe(engine.weightsHash());
  expect((await fresh.sample(request))[0]!.ids).toEqual((await engine.sample(request))[0]!.ids);
});

test("GPT-2's fused matrix with adapters on two of its three parts", async () => {
  const { architecture, parameters } = await goldenModel("gpt2");
  const lora: LoraOptions = { ...storedLora, targets: ["q", "v"] };
  const make = (): LocalEngine => {
    const engine = LocalEngine.open({ name: "gpt2", architecture, parameters, train: { type: "lora", lora } });
    opened.push(engine);
    return engine;
  };
  const [engine, other] = [make(), make()];
  scramble(engine, "policy");
  const path = await folder();
  await engine.saveAdapter("policy", path);
  await other.loadAdapter("policy", path);
  expect(other.weightsHash()).toBe(engine.weightsHash());
  // Without the note the parts cannot be told.
  await rm(join(path, "flywheel_adapter.json"));
  await expect(other.loadAdapter("policy", path)).rejects.toThrow(/c_attn\.lora_A\.weight: expected shape \[12, 32\], got \[8, 32\]/);
});

test("an adapter of another base is refused, with both named", async () => {
  const engine = await open("llama", "stored-lora");
  const path = await folder();
  await engine.saveAdapter("policy", path);
  const { architecture, parameters } = await goldenModel("llama");
  const moved = new Map([...parameters].map(([name, { floats, shape }]) => [name, new HostTensor(floats.map((x) => x * 1.01), shape)]));
  const other = LocalEngine.open({ name: "llama-moved", architecture, parameters: moved, train: { type: "none" } });
  opened.push(other);
  const [own, theirs] = [baseFingerprint(architecture, moved), baseFingerprint(architecture, parameters)];
  await expect(other.loadAdapter("x", path)).rejects.toThrow(
    `expected an adapter of llama-moved (fingerprint ${own}), got one of llama (fingerprint ${theirs}); open its own base`,
  );
  expect(other.info.adapters).toEqual(["base", "policy"]);
  expect(own).not.toBe(theirs);
  await expect((await open("qwen2", "none")).loadAdapter("x", path)).rejects.toThrow("got one of llama");
});

test("folders and names that do not fit are refused", async () => {
  const engine = await open("llama", "stored-lora");
  engine.addAdapter("reward", reward);
  const path = await folder();
  await engine.saveAdapter("policy", path);
  await expect(engine.loadAdapter("base", path)).rejects.toThrow("loadAdapter base: expected the name of an adapter, got the base");
  await expect(engine.loadAdapter("reward", path)).rejects.toThrow("expected an adapter with a scalar head, got one without");
  await expect(engine.saveAdapter("base", path)).rejects.toThrow("expected a LoRA adapter, got base, which is the base's weights");
  const full = await open("llama", "full");
  await expect(full.saveAdapter("policy", path)).rejects.toThrow("export the model instead");
  await expect(full.loadAdapter("x", path)).rejects.toThrow("expected a base that is not trained itself");
  const configPath = join(path, "adapter_config.json");
  const config = JSON.parse(await readFile(configPath, "utf8")) as Record<string, unknown>;
  const broken = async (change: Record<string, unknown>, message: string | RegExp): Promise<void> => {
    await writeFile(configPath, JSON.stringify({ ...config, ...change }));
    await expect(engine.loadAdapter("x", path)).rejects.toThrow(message);
  };
  await broken({ use_dora: true }, /expected the settings of a plain LoRA adapter, got .*use_dora/);
  await broken({ peft_type: "IA3" }, /peft_type/);
  await broken({ bias: "all" }, /bias/);
  await broken({ modules_to_save: ["lm_head"] }, /modules_to_save/);
  await broken({ alpha_pattern: { q_proj: 16 } }, /q_proj: expected alpha \/ rank 2 as elsewhere, got 4/);
  await broken({ r: 3 }, /lora_A.weight: expected shape \[3, 32\], got \[4, 32\]/);
  await writeFile(configPath, JSON.stringify(config));
  const extra = { name: "base_model.model.lm_head.lora_A.weight", shape: [1], data: new Float32Array(1) };
  await writeSafetensors(join(path, "adapter_model.safetensors"), [extra]);
  await expect(engine.loadAdapter("x", path)).rejects.toThrow("expected adapters of this architecture's linear layers, got none");
  expect(engine.info.adapters).toEqual(["base", "policy", "reward"]);
});
