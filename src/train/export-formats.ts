/** How each export format is written. */
import { resolve } from "node:path";
import type { Architecture, Family } from "../compute/models/architecture.ts";
import { writeModelFolder } from "../compute/models/export.ts";
import { exportGguf } from "../compute/models/files/gguf-export.ts";
import type { GgufWriteType } from "../compute/models/files/gguf.ts";
import type { ModelFiles } from "../compute/models/files/model-folder.ts";
import type { StoredTensor, WeightSource } from "../compute/models/files/weight-source.ts";
import { mergeLora } from "../compute/models/lora.ts";
import { exportOnnx } from "../compute/models/onnx-export.ts";
import { loadParameters, storedTensors, type Parameters } from "../compute/models/parameters.ts";
import { exportPeft } from "../compute/models/peft-export.ts";
import type { TrainedWeights } from "./trained.ts";

export const exportFormats = ["safetensors", "peft", "gguf", "onnx"] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** What is written: a model, or a run's base with the weights that it trained. */
interface Making {
  readonly files: ModelFiles;
  readonly family: Family;
  readonly architecture: Architecture;
  readonly trained: TrainedWeights | undefined;
  /** How the base model was named. */
  readonly base: string;
  readonly type: GgufWriteType;
  readonly signal: AbortSignal | undefined;
}

/** Each writes to a path and returns how many parameters it wrote. */
export const writers: Readonly<Record<ExportFormat, (path: string, making: Making) => Promise<number>>> = {
  async safetensors(path, making) {
    const parameters = await mergedParameters(making);
    const { config, tokenizer, tokenizerConfig, generationConfig } = making.files;
    const generation = Object.keys(generationConfig).length === 0 ? {} : { generationConfig };
    const type = making.type === "F16" ? "F16" : "F32";
    await writeModelFolder(path, { family: making.family, parameters, config, tokenizer, tokenizerConfig, ...generation, type });
    return count(parameters);
  },
  async peft(path, { family, architecture, trained, base, type, files }) {
    const adapter = await trained!.read(architecture);
    const name = files.name === base ? base : resolve(base);
    await exportPeft(path, { family, adapter, lora: trained!.lora!, base: name, type: type === "F16" ? "F16" : "F32" });
    return count(adapter);
  },
  async gguf(path, making) {
    const parameters = await mergedParameters(making);
    await exportGguf(path, { ...making.files, weights: weightSource(making.family, parameters) }, making.type);
    return count(parameters);
  },
  async onnx(path, making) {
    const parameters = await mergedParameters(making);
    await exportOnnx(path, making.architecture, parameters);
    return count(parameters);
  },
};

async function mergedParameters({ files, family, architecture, trained, signal }: Making): Promise<Parameters> {
  // The checkpoint first: if it does not fit, that is told before a large base is read.
  const weights = await trained?.read(architecture);
  const base = await loadParameters(family, architecture, files.weights);
  signal?.throwIfAborted();
  if (weights === undefined) return base;
  return trained?.lora === undefined ? weights : mergeLora(base, weights, trained.lora);
}

/** Parameters in memory as a source of tensors under the checkpoint's own names. */
function weightSource(family: Family, parameters: Parameters): WeightSource {
  const data = new Map<string, Float32Array>();
  const tensors = new Map<string, StoredTensor>();
  for (const { name, shape, data: values } of storedTensors(family, parameters)) {
    data.set(name, values);
    tensors.set(name, { name, shape, type: "F32" });
  }
  return { path: "memory", tensors, read: async (name) => data.get(name)!.slice(), close: async () => undefined };
}

function count(parameters: Parameters): number {
  return [...parameters.values()].reduce((sum, tensor) => sum + tensor.data.length, 0);
}
