/**
 * The recipe of the shipped model: tokenizer, pre-training on generated office text, supervised warm-up on generated dialogues.
 * One command (`npm run recipe:desk`), everything a function of the seed.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Architecture } from "../../src/compute/models/architecture.ts";
import { writeModelFolder } from "../../src/compute/models/export.ts";
import { llama } from "../../src/compute/models/families/llama.ts";
import { initialParameters } from "../../src/compute/models/parameters.ts";
import { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { rendererOf } from "../../src/compute/policy/open.ts";
import { trainBpe } from "../../src/compute/text/bpe-trainer.ts";
import type { ChatRenderer } from "../../src/compute/text/renderer.ts";
import { desk } from "../../src/env/desk.ts";
import { encodeDialogue, supervisedBatch, type EncodedDialogue } from "../../src/loop/batch/dialogue.ts";
import { crossEntropy } from "../../src/loop/loss/cross-entropy.ts";
import { learningRateAt } from "../../src/loop/update/schedule.ts";
import { integer, permutation, rng, uniform } from "../../src/random.ts";
import type { JsonObject } from "../../src/types.ts";
import { corpus } from "./corpus.ts";
import { dialogues } from "./dialogues.ts";

export interface RecipeOptions {
  readonly seed: number;
  readonly vocabulary: number;
  readonly layers: number;
  readonly hidden: number;
  readonly intermediate: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly copy: StageOptions;
  readonly pretrain: StageOptions;
  readonly warmup: StageOptions & { readonly dialogues: number; readonly right: number };
}

interface StageOptions {
  readonly steps: number;
  readonly tokensPerStep: number;
  readonly learningRate: number;
}

export type Report = (line: { readonly stage: string; readonly step: number; readonly steps: number; readonly loss: number }) => void;

const specials = ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
const contextLength = 1024;

/** Runs the recipe and writes the model folder. */
export async function makeDeskModel(folder: string, options: RecipeOptions, report: Report): Promise<void> {
  const text = [...corpus(options.seed, 2_000_000)];
  const tokenizer = trainBpe(text.slice(0, 20_000), { vocabSize: options.vocabulary, specials });
  const tokenizerConfig: JsonObject = {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: "<|im_end|>",
    pad_token: "<|endoftext|>",
    model_max_length: contextLength,
    chat_template: readFileSync(join(import.meta.dirname, "chat-template.jinja"), "utf8"),
  };
  const renderer = rendererOf({ name: "desk", tokenizer, tokenizerConfig });
  const config = modelConfig(options, renderer.tokenizer.size);
  const architecture = llama.read(config);
  const engine = newEngine(architecture, options.seed);
  await train(engine, { stage: "copy", ...options.copy }, copyRows(renderer, options.seed), report);
  await train(engine, { stage: "pretrain", ...options.pretrain }, pretrainingRows(renderer, text, options.seed), report);
  const made = await dialogues(options.seed, options.warmup.dialogues, { right: options.warmup.right, env: desk({ seed: options.seed + 1 }) });
  const rows = made.flatMap((dialogue, i) => encodeDialogue(renderer, dialogue, `dialogue ${i}`));
  await train(engine, { stage: "warm-up", ...options.warmup }, shuffled(rows, options.seed), report);
  await writeModelFolder(folder, { family: llama, parameters: engine.model.base, config, tokenizer, tokenizerConfig, generationConfig: { eos_token_id: 0, pad_token_id: 2 }, type: "F16" });
  await engine.close();
}

function modelConfig(options: RecipeOptions, vocabulary: number): JsonObject {
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: Math.ceil(vocabulary / 64) * 64,
    hidden_size: options.hidden,
    intermediate_size: options.intermediate,
    num_hidden_layers: options.layers,
    num_attention_heads: options.heads,
    num_key_value_heads: options.kvHeads,
    max_position_embeddings: contextLength,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    hidden_act: "silu",
    tie_word_embeddings: true,
    attention_bias: false,
    mlp_bias: false,
    eos_token_id: 0,
    pad_token_id: 2,
  };
}

function newEngine(architecture: Architecture, seed: number): LocalEngine {
  const parameters = initialParameters(architecture, seed);
  return LocalEngine.open({ name: "desk", architecture, parameters, train: { type: "full" }, microBatchTokens: 4096 });
}

/**
 * Random ids said again and again: nothing but what stood before predicts them, which makes the heads that copy appear early
 * (Olsson et al. 2022, arXiv:2209.11895, "In-context learning and induction heads"). Digits and letters are over-represented,
 * because these are what the desk's answers are made of; only the second half of a row is trained, where all has been said once.
 */
function* copyRows(renderer: ChatRenderer, seed: number): Generator<EncodedDialogue> {
  const { tokenizer } = renderer;
  const { size, specials } = tokenizer;
  const digits = Array.from("0123456789", (digit) => tokenizer.idOf(digit)!);
  for (let i = 0; ; i++) {
    const key = rng(seed, "copy", i);
    const period = 6 + integer(key, 25, 0);
    const phrase = Array.from({ length: period }, (_, t) => (uniform(key, 2 * t + 1) < 0.4 ? digits[integer(key, 10, 2 * t + 2)]! : specials.length + integer(key, size - specials.length, 2 * t + 2)));
    const ids = Int32Array.from({ length: 72 }, (_, t) => phrase[t % period]!);
    yield { ids, trained: Int32Array.from({ length: 36 }, (_, t) => 36 + t) };
  }
}

/** Text cut into rows of 256 ids, every token trained; each pass over the corpus in another order. */
function* pretrainingRows(renderer: ChatRenderer, text: readonly string[], seed: number): Generator<EncodedDialogue> {
  const length = 256;
  const encoded = text.map((paragraph) => renderer.tokenizer.encode(`${paragraph}<|endoftext|>`));
  for (let pass = 0; ; pass++) {
    let ids: number[] = [];
    for (const index of permutation(rng(seed, "pretrain", pass), encoded.length)) {
      ids.push(...encoded[index]!);
      while (ids.length >= length) {
        yield { ids: Int32Array.from(ids.slice(0, length)), trained: Int32Array.from({ length: length - 1 }, (_, t) => t + 1) };
        ids = ids.slice(length);
      }
    }
  }
}

function* shuffled(rows: readonly EncodedDialogue[], seed: number): Generator<EncodedDialogue> {
  for (let pass = 0; ; pass++) for (const index of permutation(rng(seed, "warm-up", pass), rows.length)) yield rows[index]!;
}

async function train(engine: LocalEngine, stage: StageOptions & { readonly stage: string }, rows: Generator<EncodedDialogue>, report: Report): Promise<void> {
  for (let step = 0; step < stage.steps; step++) {
    const batch: EncodedDialogue[] = [];
    for (let tokens = 0; tokens < stage.tokensPerStep; ) {
      const row = rows.next().value as EncodedDialogue;
      batch.push(row);
      tokens += row.ids.length;
    }
    const { loss } = await engine.forwardBackward(supervisedBatch(batch, "token-mean"), crossEntropy);
    const learningRate = learningRateAt(step, { base: stage.learningRate, schedule: "cosine", warmup: Math.min(50, stage.steps / 10), total: stage.steps });
    await engine.optimStep({ learningRate, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 });
    report({ stage: stage.stage, step: step + 1, steps: stage.steps, loss });
  }
}
