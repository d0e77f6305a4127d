import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { expect, test } from "vitest";
import { ggufArchitecture, ggufConfig } from "../../../../src/compute/models/files/gguf-config.ts";
import { openGguf, writeGguf } from "../../../../src/compute/models/files/gguf.ts";
import type { GgufSource } from "../../../../src/compute/models/files/gguf.ts";
import type { GgufEntry } from "../../../../src/compute/models/files/gguf-header.ts";
import { ggufTokenizer } from "../../../../src/compute/models/files/gguf-tokenizer.ts";
import { ggufWeights, huggingFaceName } from "../../../../src/compute/models/files/gguf-weights.ts";
import { openModelFiles } from "../../../../src/compute/models/files/model-folder.ts";
import { openSafetensors } from "../../../../src/compute/models/files/safetensors.ts";
import { golden, temporaryFolder } from "./temporary.ts";

const models = ["smollm", "llama3", "qwen2", "qwen3", "gpt2"] as const;

interface Golden {
  readonly config: Readonly<Record<string, unknown>>;
  readonly ids: Readonly<Record<string, number[]>>;
  readonly decoded: Readonly<Record<string, string>>;
}

async function goldenOf(name: string): Promise<Golden> {
  return JSON.parse(await readFile(join(golden, `${name}.json`), "utf8")) as Golden;
}

test.each(models)("%s: names, shapes and values are those of the Hugging Face model", async (name) => {
  const files = await openModelFiles(join(golden, `${name}.gguf`));
  const want = await openSafetensors(join(golden, `${name}.safetensors`));
  expect([...files.weights.tensors.keys()].sort()).toEqual([...want.tensors.keys()].sort());
  for (const [tensor, { shape }] of want.tensors) {
    expect(files.weights.tensors.get(tensor)?.shape).toEqual(shape);
    expect(await files.weights.read(tensor), tensor).toEqual(await want.read(tensor));
  }
  await want.close();
  await files.close();
});

test.each(models)("%s: the configuration says what config.json says", async (name) => {
  const files = await openModelFiles(join(golden, `${name}.gguf`));
  const { config: want } = await goldenOf(name);
  const { architectures, bos_token_id, eos_token_id, rope_scaling, rope_theta, n_ctx, n_inner, ...rest } = files.config;
  // Qwen2's configuration derives the head size.
  const whole: Record<string, unknown> = { ...want, head_dim: want["head_dim"] ?? (name === "qwen2" ? 8 : undefined) };
  for (const [key, value] of Object.entries(rest)) expect({ [key]: value }).toEqual({ [key]: whole[key] });
  expect([bos_token_id, eos_token_id]).toEqual([0, 1]);
  if (name === "gpt2") {
    expect({ architectures, n_ctx, n_inner }).toEqual({ architectures: ["GPT2LMHeadModel"], n_ctx: 64, n_inner: 64 });
  } else {
    const scaling = rope_scaling as Record<string, unknown> | null;
    expect({ rope_theta, rope_type: "default", ...scaling }).toEqual(want["rope_parameters"]);
    const family = { smollm: "Llama", llama3: "Llama", qwen2: "Qwen2", qwen3: "Qwen3" }[name];
    expect(architectures).toEqual([`${family}ForCausalLM`]);
  }
  await files.close();
});

test.each(models)("%s: the tokenizer gives the ids of the family's own tokenizer.json", async (name) => {
  const files = await openModelFiles(join(golden, `${name}.gguf`));
  await files.close();
  const tokenizer = new Tokenizer(files.tokenizer, files.tokenizerConfig);
  const { ids, decoded } = await goldenOf(name);
  for (const [text, want] of Object.entries(ids)) {
    expect({ text, ids: tokenizer.encode(text).ids }).toEqual({ text, ids: want });
    if (want.length > 0) expect(tokenizer.decode(want, { skip_special_tokens: true })).toBe(decoded[text]);
  }
  expect(tokenizer.token_to_id("<|end|>")).toBe(1);
});

test("special tokens, chat template and padding entries of the vocabulary", async () => {
  const files = await openModelFiles(join(golden, "smollm.gguf"));
  await files.close();
  const { model, added_tokens: added } = files.tokenizer as {
    model: { vocab: Record<string, number> };
    added_tokens: { content: string; special: boolean }[];
  };
  const special = added.map((token) => [token.content, token.special]);
  expect(special).toEqual([["<|start|>", true], ["<|end|>", true], ["<tool>", false], ["</tool>", false]]);
  expect(Object.keys(model.vocab).some((token) => token.startsWith("[PAD"))).toBe(false);
  expect(files.tokenizerConfig).toEqual({
    add_bos_token: false,
    add_prefix_space: false,
    clean_up_tokenization_spaces: false,
    bos_token: "<|start|>",
    eos_token: "<|end|>",
    chat_template: "{{ messages }}",
    model_max_length: 64,
  });
  expect(files.generationConfig).toEqual({ bos_token_id: 0, eos_token_id: 1 });
});

test("names of deep layers, and names that no architecture has", () => {
  expect(huggingFaceName("llama", "blk.11.attn_q.weight")).toBe("model.layers.11.self_attn.q_proj.weight");
  expect(huggingFaceName("qwen2", "blk.0.attn_k.bias")).toBe("model.layers.0.self_attn.k_proj.bias");
  expect(huggingFaceName("gpt2", "blk.3.ffn_down.bias")).toBe("transformer.h.3.mlp.c_proj.bias");
  expect(huggingFaceName("llama", "blk.0.ffn_gate_inp.weight")).toBeUndefined();
  expect(huggingFaceName("llama", "constructor.weight")).toBeUndefined();
});

type Changes = Readonly<Record<string, GgufEntry | undefined>>;

/** A GGUF file with changed metadata (undefined removes a key) and tensors of one element each. */
async function variant(changes: Changes, tensors: readonly string[]): Promise<GgufSource> {
  const original = await openGguf(join(golden, "smollm.gguf"));
  const metadata = new Map(original.metadata);
  for (const [key, entry] of Object.entries(changes)) {
    if (entry === undefined) metadata.delete(key);
    else metadata.set(key, entry);
  }
  const path = join(await temporaryFolder(), "variant.gguf");
  const written = tensors.map((name) => ({ name, shape: [1], type: "F32" as const, data: Float32Array.of(1) }));
  await writeGguf(path, { metadata, tensors: written });
  await original.close();
  return openGguf(path);
}

const text = (value: string): GgufEntry => ({ type: "string", value });

test("what is not understood is refused, naming the key", async () => {
  const mixture = await variant({}, ["token_embd.weight", "blk.0.ffn_gate_inp.weight"]);
  expect(() => ggufWeights(mixture, "llama", {})).toThrow(/expected tensors of a dense llama model, got blk\.0\.ffn_gate_inp\.weight/);
  await mixture.close();
  const other = await variant({ "general.architecture": text("mamba") }, []);
  expect(() => ggufArchitecture(other)).toThrow(/general\.architecture: expected llama, qwen2, qwen3, gpt2, got mamba/);
  await other.close();
  const some = ["token_embd.weight"];
  const size = (value: number): GgufEntry => ({ type: "u32", value });
  const configCases: [Changes, string[], RegExp][] = [
    [{ "llama.block_count": undefined }, some, /expected metadata llama\.block_count, got none/],
    [{ "llama.rope.dimension_count": size(4), "llama.attention.key_length": size(8) }, some, /partly rotated/],
    [{ "llama.attention.head_count_kv": { type: "array", items: "i32", value: [1, 2] } }, some, /expected one value for all layers, got 2/],
    [{ "llama.rope.scaling.type": text("longrope"), "llama.rope.scaling.factor": size(2) }, some, /none, linear or yarn, got longrope/],
    [{}, [], /expected a tensor named token_embd\.weight, got none/],
  ];
  for (const [changes, tensors, message] of configCases) {
    const source = await variant(changes, tensors);
    await expect(ggufConfig(source)).rejects.toThrow(message);
    await source.close();
  }
  const tokenizerCases: [Changes, RegExp][] = [
    [{ "tokenizer.ggml.model": text("llama") }, /tokenizer\.ggml\.model: expected "gpt2" \(byte-level BPE\), got "llama"/],
    [{ "tokenizer.ggml.pre": text("deepseek-coder") }, /ggml\.pre: expected gpt-2, smollm, qwen2, llama-bpe, got deepseek-coder/],
    [{ "tokenizer.ggml.pre": undefined }, /tokenizer\.ggml\.pre: expected .*, got none/],
    [{ "tokenizer.ggml.merges": undefined }, /tokenizer\.ggml\.merges: expected an array of string, got none/],
    [{ "tokenizer.ggml.eos_token_id": { type: "u32", value: 999999 } }, /eos_token_id: expected an id below 304, got 999999/],
    [{ "tokenizer.ggml.token_type": { type: "array", items: "i32", value: [1] } }, /token_type: expected 304 entries, got 1/],
  ];
  for (const [changes, message] of tokenizerCases) {
    const source = await variant(changes, []);
    expect(() => ggufTokenizer(source)).toThrow(message);
    await source.close();
  }
});

test("rope scaling: linear and yarn come from metadata; foreign frequency tables are refused", async () => {
  const scaling = (type: string): Record<string, GgufEntry> => ({
    "llama.rope.scaling.type": text(type),
    "llama.rope.scaling.factor": { type: "f32", value: 4 },
    "llama.rope.scaling.original_context_length": { type: "u32", value: 32 },
  });
  const linear = await variant(scaling("linear"), ["token_embd.weight"]);
  expect((await ggufConfig(linear))["rope_scaling"]).toEqual({ rope_type: "linear", type: "linear", factor: 4 });
  await linear.close();
  const yarn = await variant(scaling("yarn"), ["token_embd.weight"]);
  const settings = { rope_type: "yarn", type: "yarn", factor: 4, original_max_position_embeddings: 32 };
  expect((await ggufConfig(yarn))["rope_scaling"]).toEqual(settings);
  await yarn.close();
  const foreign = await openGguf(join(golden, "llama3.gguf"));
  const read = async (name: string): Promise<Float32Array> => (await foreign.read(name)).map((value, i) => (i === 3 ? value * 1.5 : value));
  const altered: GgufSource = { ...foreign, read };
  await expect(ggufConfig(altered)).rejects.toThrow(/rope_freqs\.weight\[3\]: expected .* of Llama 3\.1's scaling/);
  await foreign.close();
});

test("two ends of generation are both kept", async () => {
  const source = await variant({ "tokenizer.ggml.eot_token_id": { type: "u32", value: 5 } }, []);
  expect(ggufTokenizer(source).generationConfig["eos_token_id"]).toEqual([1, 5]);
  await source.close();
});
