/** The shipped model, supervised on dialogues that are played through environments, under a chat template of few tokens. */
import { writeModelFolder } from "../../src/compute/models/export.ts";
import { openPolicy, rendererOf } from "../../src/compute/policy/open.ts";
import { encodeDialogue } from "../../src/compute/text/dialogue.ts";
import { supervisedBatch } from "../../src/loop/batch/dialogue.ts";
import { crossEntropy } from "../../src/loop/loss/cross-entropy.ts";
import { playScripted, type Speaker } from "../../src/loop/rollout/scripted.ts";
import { learningRateAt } from "../../src/loop/update/schedule.ts";
import type { Env, Message, Task } from "../../src/types.ts";

/** Each turn ends with a token of its own, and one opens the model's. */
const template =
  '{%- for message in messages -%}' +
  '{{- ("<|im_start|>" if message.role == "assistant" else "") + message.content + "<|im_end|>" -}}{%- endfor -%}' +
  '{%- if add_generation_prompt -%}{{- "<|im_start|>" -}}{%- endif -%}';

export type Say = (task: Task, dialogue: number) => Speaker;

export interface Stage {
  readonly env: Env;
  /** Who says what is learned. */
  readonly speaker: Say;
  readonly steps: number;
  readonly learningRate: number;
}

interface MakeOptions {
  readonly dialoguesPerStep: number;
  /** One after another. */
  readonly stages: readonly Stage[];
}

/** Trains the model of `from` and writes it to `to`; returns the last loss of each stage, nats a token. */
export async function makeModel(from: string, to: string, { dialoguesPerStep, stages }: MakeOptions): Promise<number[]> {
  await using policy = await openPolicy(from, { train: { type: "full" }, microBatchTokens: 8192 });
  const { engine, family, files } = policy;
  const tokenizerConfig = { ...files.tokenizerConfig, chat_template: template };
  const renderer = rendererOf({ ...files, tokenizerConfig });
  const ends: number[] = [];
  for (const { env, speaker, steps, learningRate } of stages) {
    const made = await dialogues(env, { count: steps * dialoguesPerStep, speaker });
    for (let step = 0; step < steps; step++) {
      const own = made.slice(step * dialoguesPerStep, (step + 1) * dialoguesPerStep);
      const rows = own.flatMap((messages, i) => encodeDialogue(renderer, { messages }, `dialogue ${i}`));
      const { loss } = await engine.forwardBackward(supervisedBatch(rows, "token-mean"), crossEntropy);
      const rate = learningRateAt(step, { base: learningRate, schedule: "cosine", warmup: 4, total: steps });
      await engine.optimStep({ learningRate: rate, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 });
      if (step === steps - 1) ends.push(loss);
    }
  }
  const { config, tokenizer, generationConfig } = files;
  await writeModelFolder(to, {
    family, parameters: engine.model.base, config, tokenizer, tokenizerConfig,
    ...(generationConfig === undefined ? {} : { generationConfig }),
  });
  return ends;
}

interface Drawn {
  readonly count: number;
  readonly speaker: Say;
}

/** Dialogues of the last train tasks, played through the environment. */
async function dialogues(env: Env, { count, speaker }: Drawn): Promise<Message[][]> {
  const source = env.tasks("train");
  const made: Message[][] = [];
  for (let i = 0; i < count; i++) {
    const task = source.at(source.size - 1 - (i % source.size));
    made.push([...(await playScripted(env, task, speaker(task, i))).messages]);
  }
  return made;
}
