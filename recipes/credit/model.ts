/**
 * A model of some tens of thousands of parameters that has never seen anything but locks: its tokenizer, its weights and its
 * supervised warm-up are a function of the seed. Small, so that the runs to be compared are many and short.
 */
import { writeModelFolder } from "../../src/compute/models/export.ts";
import { llama } from "../../src/compute/models/families/llama.ts";
import { initialParameters } from "../../src/compute/models/parameters.ts";
import { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { rendererOf } from "../../src/compute/policy/open.ts";
import { trainBpe } from "../../src/compute/text/bpe-trainer.ts";
import type { EncodedDialogue } from "../../src/compute/text/dialogue.ts";
import type { ChatRenderer } from "../../src/compute/text/renderer.ts";
import { supervisedBatch } from "../../src/loop/batch/dialogue.ts";
import { crossEntropy } from "../../src/loop/loss/cross-entropy.ts";
import { learningRateAt } from "../../src/loop/update/schedule.ts";
import type { Env, JsonObject, Message } from "../../src/types.ts";
import { dialogues } from "./warm-up.ts";

const specials = ["<|end|>", "<|user|>", "<|assistant|>"];
const template =
  '{%- for message in messages -%}{{- "<|" + message.role + "|>" + message.content + "<|end|>" -}}{%- endfor -%}' +
  '{%- if add_generation_prompt -%}{{- "<|assistant|>" -}}{%- endif -%}';
const contextLength = 512;

export interface Stage {
  readonly env: Env;
  readonly steps: number;
  readonly learningRate: number;
  /** Share of answers that are known. */
  readonly known: number;
  /** Which tokens are trained: all, as in pre-training, or the answers alone. */
  readonly tokens: "all" | "answers";
}

interface MakeOptions {
  readonly seed: number;
  readonly dialoguesPerStep: number;
  /** One after another. */
  readonly stages: readonly Stage[];
}

/** Makes the model and writes its folder; returns the loss of each step. */
export async function makeModel(folder: string, { seed, dialoguesPerStep, stages }: MakeOptions): Promise<number[]> {
  const dialogues_S: Message[][][] = [];
  for (const [s, { env, steps, known }] of stages.entries())
    dialogues_S.push(await dialogues(env, { seed: seed + s, count: steps * dialoguesPerStep, known }));
  const text = dialogues_S[0]!.slice(0, 50).flatMap((messages) => messages.map(({ content }) => content));
  // Bytes alone: what is read and what is said are then the same ids.
  const tokenizer = trainBpe(text, { vocabSize: 256 + specials.length, specials });
  const tokenizerConfig: JsonObject = {
    tokenizer_class: "PreTrainedTokenizerFast", eos_token: "<|end|>", model_max_length: contextLength, chat_template: template,
  };
  const renderer = rendererOf({ name: "lock", tokenizer, tokenizerConfig });
  const config: JsonObject = {
    architectures: ["LlamaForCausalLM"], model_type: "llama", vocab_size: Math.ceil(renderer.tokenizer.size / 64) * 64,
    hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4,
    max_position_embeddings: contextLength, rms_norm_eps: 1e-5, rope_theta: 10_000, hidden_act: "silu", tie_word_embeddings: true,
    attention_bias: false, mlp_bias: false, eos_token_id: 0,
  };
  const architecture = llama.read(config);
  const parameters = initialParameters(architecture, seed);
  const engine = LocalEngine.open({ name: "lock", architecture, parameters, train: { type: "full" }, microBatchTokens: 8192 });
  const losses: number[] = [];
  for (const [s, { steps, learningRate, tokens }] of stages.entries()) {
    for (let step = 0; step < steps; step++) {
      const own = dialogues_S[s]!.slice(step * dialoguesPerStep, (step + 1) * dialoguesPerStep);
      const rows = own.map((messages) => rowOf(messages, renderer, tokens));
      const { loss } = await engine.forwardBackward(supervisedBatch(rows, "token-mean"), crossEntropy);
      const rate = learningRateAt(step, { base: learningRate, schedule: "cosine", warmup: steps / 20, total: steps });
      await engine.optimStep({ learningRate: rate, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 });
      losses.push(loss);
    }
  }
  const generationConfig = { eos_token_id: 0 };
  const texts = { config, tokenizer, tokenizerConfig, generationConfig };
  await writeModelFolder(folder, { family: llama, parameters: engine.model.base, ...texts, type: "F32" });
  await engine.close();
  return losses;
}

/** What `encodeDialogue` gives for this template, without rendering it anew for every turn. */
export function rowOf(
  messages: readonly Message[],
  { tokenizer }: Pick<ChatRenderer, "tokenizer">,
  tokens: Stage["tokens"],
): EncodedDialogue {
  const ids: number[] = [];
  const trained: number[] = [];
  for (const { role, content } of messages) {
    ids.push(tokenizer.idOf(`<|${role}|>`)!);
    const turn = [...tokenizer.encode(content), tokenizer.idOf("<|end|>")!];
    if (role === "assistant") trained.push(...turn.map((_id, t) => ids.length + t));
    ids.push(...turn);
  }
  const all = Int32Array.from(ids.slice(1), (_id, t) => t + 1);
  return { ids: Int32Array.from(ids), trained: tokens === "answers" ? Int32Array.from(trained) : all };
}
