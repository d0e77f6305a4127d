/** Tiny models with random weights and a real tokenizer, and runs that trained them, on disk. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { writeModelFolder } from "../../src/compute/models/export.ts";
import { openModelFiles } from "../../src/compute/models/files/model-folder.ts";
import { loraShapes, type LoraOptions } from "../../src/compute/models/lora.ts";
import { familyOf, initialParameters, loadParameters, parameterShapes, type Parameters } from "../../src/compute/models/parameters.ts";
import { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { HostTensor } from "../../src/compute/tensor/host.ts";
import { normal, rng } from "../../src/random.ts";
import { writeCheckpoint } from "../../src/train/record/checkpoint.ts";
import { openRun } from "../../src/train/record/run-folder.ts";
import type { JsonObject } from "../../src/types.ts";
import { goldenJson, goldenFolder } from "./golden.ts";
import { tinyTokenizerJson } from "./tiny-tokenizer.ts";

export type TinyFamily = "llama" | "qwen2" | "qwen3" | "gpt2";

/** A folder that is gone when the test is over. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "flywheel-cli-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Weights large enough that every one of them can be seen in the logits. */
function randomTensors(shapes: ReadonlyMap<string, readonly number[]>, seed: number): Map<string, HostTensor> {
  const tensors = new Map<string, HostTensor>();
  for (const [name, shape] of shapes) {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
    const key = rng(seed, name);
    for (let i = 0; i < data.length; i++) data[i] = 0.2 * normal(key, i);
    tensors.set(name, new HostTensor(data, shape));
  }
  return tensors;
}

/** Writes a model of a golden model's shape, with 512 tokens and a chat template; `changes` go into its config.json. */
export async function writeTinyModel(folder: string, family: TinyFamily, changes: JsonObject = {}): Promise<string> {
  const config = { ...goldenJson<JsonObject>(`models/${family}/config.json`), vocab_size: 512, ...changes };
  const architecture = familyOf(config).read(config);
  const parameters = new Map(initialParameters(architecture, 7));
  const matrices = new Map([...parameters].flatMap(([name, { shape }]) => (shape.length === 2 ? [[name, shape] as const] : [])));
  for (const [name, tensor] of randomTensors(matrices, 7)) parameters.set(name, tensor);
  const template = readFileSync(join(goldenFolder, "chat/chatml.jinja"), "utf8");
  const tokenizerConfig = { eos_token: "<|im_end|>", bos_token: "<|begin_of_text|>", chat_template: template };
  await writeModelFolder(folder, { family: familyOf(config), parameters, config, tokenizer: tinyTokenizerJson(), tokenizerConfig });
  return folder;
}

export interface TinyRun {
  readonly folder: string;
  readonly model: string;
  /** What each checkpoint holds, by step. */
  readonly weights: ReadonlyMap<number, Parameters>;
}

export const TINY_LORA: LoraOptions = { rank: 4, alpha: 8, targets: ["q", "k", "v", "o", "gate", "up", "down"] };

/** A run of two steps with a checkpoint after each; the first has the better score. `lora` null: all weights were trained. */
export async function writeTinyRun(folder: string, model: string, lora: LoraOptions | null = TINY_LORA): Promise<TinyRun> {
  const files = await openModelFiles(model);
  const family = familyOf(files.config);
  const architecture = family.read(files.config);
  const parameters = await loadParameters(family, architecture, files.weights);
  await files.close();
  const adapter = lora === null
    ? { adapter: "full" }
    : { adapter: "lora", rank: lora.rank, alpha: lora.alpha, targets: lora.targets.map((target) => `${target}_proj`) };
  const weights = new Map<number, Parameters>();
  await using run = await openRun({ folder, config: { name: "tiny", model: { path: model, ...adapter } }, plan: {}, resume: false });
  for (const step of [1, 2]) {
    const trained = randomTensors(lora === null ? parameterShapes(architecture) : loraShapes(architecture, lora), step);
    weights.set(step, trained);
    const train = lora === null ? ({ type: "full" } as const) : ({ type: "lora", lora, initial: trained } as const);
    await using engine = LocalEngine.open({ name: "tiny", architecture, parameters: lora === null ? trained : parameters, train });
    await run.commitStep({ entry: { step, tasks: [], rollouts: [], version: step }, metrics: { step }, trajectories: [] });
    await writeCheckpoint(run, { step, save: (to) => engine.save(to), extra: {}, score: 1 / step });
  }
  return { folder, model, weights };
}
