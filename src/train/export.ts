/** Exports a run's policy, or any model, in the forms that other software opens. */
import { readdir, rename, rm, rmdir, stat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { ConfigError, ModelError, diskProblem, expected, messageOf, onDisk } from "../errors.ts";
import type { GgufWriteType } from "../compute/models/files/gguf.ts";
import { openModelFiles } from "../compute/models/files/model-folder.ts";
import { readArchitecture } from "../compute/models/parameters.ts";
import { writers, type ExportFormat } from "./export-formats.ts";
import { isMissing, makeFolder, removeMade, temporaryName } from "./record/files.ts";
import { isRunFolder, openTrained, type TrainedOptions, type TrainedWeights } from "./trained.ts";

/** Number types that each format is written in; the first is the default. */
const types: Readonly<Record<ExportFormat, readonly GgufWriteType[]>> = {
  safetensors: ["F32", "F16"],
  peft: ["F32", "F16"],
  gguf: ["F16", "F32", "Q8_0"],
  onnx: ["F32"],
};

export interface ExportOptions extends TrainedOptions {
  /** A folder for safetensors and peft, a file for gguf and onnx; never one that is there and not empty. */
  readonly to: string;
  /** Default: by the ending of `to`, else safetensors. */
  readonly format?: ExportFormat;
  /** Default F32; F16 for gguf. */
  readonly type?: GgufWriteType;
  readonly cacheDir?: string;
  readonly signal?: AbortSignal;
}

export interface ExportedModel {
  readonly path: string;
  readonly format: ExportFormat;
  readonly type: GgufWriteType;
  readonly bytes: number;
  readonly parameters: number;
  /** The base model's name. */
  readonly model: string;
  /** The checkpoint whose weights were used; undefined for a model as it is. */
  readonly checkpoint: TrainedWeights["checkpoint"] | undefined;
}

/** Writes a run's policy (base and trained weights merged; the adapter alone for peft) or a model to `to`, whole or not at all. */
export async function exportModel(source: string, options: ExportOptions): Promise<ExportedModel> {
  const format = options.format ?? formatOf(options.to) ?? "safetensors";
  const type = options.type ?? types[format][0]!;
  if (!types[format].includes(type)) throw new ConfigError(expected(`export as ${format}`, `type ${types[format].join(" or ")}`, type));
  const to = resolve(options.to);
  await refuseTarget(to, format);
  const isRun = await isRunFolder(source);
  if (!isRun && (options.checkpoint ?? "latest") !== "latest") {
    throw new ConfigError(expected(`export of ${source}`, "a run folder, since a checkpoint is named", "a model"));
  }
  const trained = isRun ? await openTrained(source, options) : undefined;
  if (format === "peft" && trained?.lora === undefined) {
    const got = trained === undefined ? "a model without one" : "a run that trained all weights";
    throw new ConfigError(expected("export as peft", "a run that trained a LoRA adapter", got, "export it as safetensors"));
  }
  const files = await openModelFiles(trained?.base ?? source, options.cacheDir === undefined ? {} : { cacheDir: options.cacheDir });
  try {
    const made = { files, ...readArchitecture(files), trained, type, signal: options.signal };
    const base = trained?.base ?? source;
    const parameters = await placed(to, (path) => writers[format](path, { ...made, base }), options.signal);
    return { path: to, format, type, bytes: await sizeOf(to), parameters, model: files.name, checkpoint: trained?.checkpoint };
  } finally {
    await files.close();
  }
}

/** The format that a file name's ending stands for; folders have none. */
function formatOf(path: string): "gguf" | "onnx" | undefined {
  return path.endsWith(".gguf") ? "gguf" : path.endsWith(".onnx") ? "onnx" : undefined;
}

async function refuseTarget(path: string, format: ExportFormat): Promise<void> {
  const isFile = format === "gguf" || format === "onnx";
  if (!isFile && /\.(gguf|onnx|safetensors|json|bin|pt)$/i.test(path)) {
    const held = format === "peft" ? "the adapter and its configuration" : "model.safetensors, configuration and tokenizer";
    const remedy = `the folder then holds ${held}`;
    throw new ConfigError(expected(`export as ${format}`, "the name of a folder", basename(path), remedy));
  }
  if (isFile && formatOf(path) !== format) {
    throw new ConfigError(expected(`export as ${format}`, `a file name that ends in .${format}`, basename(path)));
  }
  const found = await stat(path).catch((cause: unknown) => {
    if (isMissing(cause)) return undefined;
    throw new ConfigError(diskProblem(cause, path) ?? messageOf(cause), { cause });
  });
  if (found === undefined || (!isFile && found.isDirectory() && (await readdir(path)).length === 0)) return;
  const got = found.isDirectory() ? "a folder" : "a file";
  throw new ConfigError(expected(`export to ${path}`, "a path that is free", `${got} that is there`, "choose another, or remove it first"));
}

/** Lets `write` fill a temporary place beside `to`, and renames it when it is complete. */
async function placed<T>(to: string, write: (path: string) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return onDisk(ModelError, to, async () => {
    const made = await makeFolder(dirname(to));
    const temporary = temporaryName(to);
    try {
      const result = await write(temporary);
      signal?.throwIfAborted();
      await rmdir(to).catch(() => undefined);
      await rename(temporary, to);
      return result;
    } catch (cause) {
      await rm(temporary, { recursive: true, force: true });
      if (made !== undefined) await removeMade(dirname(to), made);
      throw cause;
    }
  });
}

async function sizeOf(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isDirectory()) return found.size;
  const sizes = await Promise.all((await readdir(path)).map((name) => sizeOf(resolve(path, name))));
  return sizes.reduce((a, b) => a + b, 0);
}
