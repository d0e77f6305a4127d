/**
 * The recipe of the shipped model: tokenizer, pre-training on generated office text, supervised warm-up on generated dialogues.
 * One command (`npm run recipe:desk`), everything a function of the seed.
 */
import type { Architecture } from "../../src/compute/models/architecture.ts";
import { writeModelFolder } from "../../src/compute/models/export.ts";
import { llama } from "../../src/compute/models/families/llama.ts";
import { initialParameters } from "../../src/compute/models/parameters.ts";
import { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { rendererOf } from "../../src/compute/policy/open.ts";
import { trainBpe } from "../../src/compute/text/bpe-trainer.ts";
import type { ChatRenderer } from "../../src/compute/text/renderer.ts";
import { draw } from "../../src/env/desk/draw.ts";
import { desk } from "../../src/env/desk.ts";
import { encodeDialogue, type EncodedDialogue } from "../../src/compute/text/dialogue.ts";
import { supervisedBatch } from "../../src/loop/batch/dialogue.ts";
import { crossEntropy } from "../../src/loop/loss/cross-entropy.ts";
import { learningRateAt } from "../../src/loop/update/schedule.ts";
import { permutation, rng, uniform } from "../../src/random.ts";
import type { JsonObject } from "../../src/types.ts";
import { copyRow } from "./copying.ts";
import { corpus } from "./corpus.ts";
import { dialogues } from "./dialogues.ts";
import { nameableWords, renamed, withoutNames } from "./renaming.ts";

export interface RecipeOptions {
  readonly seed: number;
  readonly chatTemplate: string;
  readonly vocabulary: number;
  readonly layers: number;
  readonly hidden: number;
  readonly intermediate: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Dialogues made for each of the last two stages. */
  readonly dialogues: number;
  /** Copying of random ids alone. */
  readonly copy: StageOptions;
  /** Dialogues (a share of them `right`), plain text and some copying. */
  readonly mix: StageOptions & { readonly right: number };
  /** Dialogues that are right in the share that the finished model should be. */
  readonly warmup: StageOptions & { readonly right: number };
}

interface StageOptions {
  readonly schedule: "constant" | "cosine";
  readonly steps: number;
  readonly tokensPerStep: number;
  readonly learningRate: number;
}

export type Report = (line: { readonly stage: string; readonly step: number; readonly steps: number; readonly loss: number }) => void;

const specials = ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
const contextLength = 1024;

/** Runs the recipe and writes the model folder. */
export async function makeDeskModel(folder: string, options: RecipeOptions, report: Report): Promise<void> {
  const { seed } = options;
  const text = [...corpus(seed, 2_000_000)];
  // Names become several tokens each, in both splits: copying them is then one skill, and none is a token never seen in an answer.
  const tokenizer = trainBpe(text.map(withoutNames), { vocabSize: options.vocabulary, specials });
  const tokenizerConfig: JsonObject = {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: "<|im_end|>",
    pad_token: "<|endoftext|>",
    model_max_length: contextLength,
    chat_template: options.chatTemplate,
  };
  const renderer = rendererOf({ name: "desk", tokenizer, tokenizerConfig });
  const config = modelConfig(options, renderer.tokenizer.size);
  const architecture = llama.read(config);
  const engine = newEngine(architecture, seed);
  await train(engine, { stage: "copy", ...options.copy }, copying(renderer, seed), report);
  const skilled = await dialogueRows(renderer, { seed, count: options.dialogues, right: options.mix.right });
  const mixture = mixed([
    { share: 0.55, rows: shuffled(skilled, seed) },
    { share: 0.3, rows: plainText(renderer, text, seed) },
    { share: 0.15, rows: copying(renderer, seed + 1) },
  ], seed);
  await train(engine, { stage: "mix", ...options.mix }, mixture, report);
  const undecided = await dialogueRows(renderer, { seed: seed + 1, count: options.dialogues, right: options.warmup.right });
  await train(engine, { stage: "warm-up", ...options.warmup }, shuffled(undecided, seed + 1), report);
  const generationConfig = { eos_token_id: 0, pad_token_id: 2 };
  await writeModelFolder(folder, {
    family: llama,
    parameters: engine.model.base,
    config,
    tokenizer,
    tokenizerConfig,
    generationConfig,
    type: "F16",
  });
  await engine.close();
}

/**
 * Dialogues of a desk whose questions no quickstart asks, two in three about other names. A call that cannot be read has no place in
 * supervised text.
 */
async function dialogueRows(
  renderer: ChatRenderer,
  { seed, count, right }: { seed: number; count: number; right: number },
): Promise<EncodedDialogue[]> {
  const { tokenizer } = renderer;
  const made = await dialogues(seed, count, { right, env: desk({ seed: seed + 1000, sizes: { train: count, test: 1 } }) });
  const words = nameableWords(Array.from({ length: tokenizer.size }, (_, id) => tokenizer.decode([id])));
  return made.flatMap(({ behaviour, messages, tools }, i) => {
    if (behaviour === "malformed") return [];
    const random = draw(rng(seed, "names", i));
    const told = random.range(0, 2) === 0 ? messages : renamed(messages, random, words);
    return encodeDialogue(renderer, { messages: told, tools }, `dialogue ${i}`);
  });
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
 * Random ids said again and again (see copying.ts), the second half of each row trained; digits are over-represented, because the
 * desk's answers are made of them.
 */
function* copying(renderer: ChatRenderer, seed: number): Generator<EncodedDialogue> {
  const { tokenizer } = renderer;
  const length = 72;
  const ids = Array.from({ length: tokenizer.size - tokenizer.specials.length }, (_, i) => tokenizer.specials.length + i);
  const often = Array.from("0123456789", (digit) => tokenizer.idOf(digit)!);
  for (let i = 0; ; i++) {
    const row = copyRow(seed, i, { ids, often, length });
    yield { ids: Int32Array.from(row.ids), trained: Int32Array.from({ length: length / 2 }, (_, t) => length / 2 + t) };
  }
}

/** Rows of several sources, drawn by their shares of rows. */
function* mixed(
  sources: readonly { readonly share: number; readonly rows: Generator<EncodedDialogue> }[],
  seed: number,
): Generator<EncodedDialogue> {
  for (let i = 0; ; i++) {
    let left = uniform(rng(seed, "mix", i));
    const source = sources.find(({ share }) => (left -= share) < 0) ?? sources[0]!;
    yield source.rows.next().value as EncodedDialogue;
  }
}

/** Text cut into rows of 128 ids, every token trained; each pass over the corpus in another order. */
function* plainText(renderer: ChatRenderer, text: readonly string[], seed: number): Generator<EncodedDialogue> {
  const length = 128;
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

async function train(
  engine: LocalEngine,
  stage: StageOptions & { readonly stage: string },
  rows: Generator<EncodedDialogue>,
  report: Report,
): Promise<void> {
  for (let step = 0; step < stage.steps; step++) {
    const batch: EncodedDialogue[] = [];
    for (let tokens = 0; tokens < stage.tokensPerStep; ) {
      const row = rows.next().value as EncodedDialogue;
      batch.push(row);
      tokens += row.ids.length;
    }
    const { loss } = await engine.forwardBackward(supervisedBatch(batch, "token-mean"), crossEntropy);
    const learningRate = learningRateAt(step, {
      base: stage.learningRate,
      schedule: stage.schedule,
      warmup: Math.min(50, stage.steps / 10),
      total: stage.steps,
    });
    await engine.optimStep({ learningRate, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 });
    report({ stage: stage.stage, step: step + 1, steps: stage.steps, loss });
  }
}
