/** Everything of a model that is on disk, whatever form it has there. */
import type { Stats } from "node:fs";
import { readFile, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import { ModelError, diskProblem, expected, messageOf } from "../../../errors.ts";
import type { JsonObject } from "../../../types.ts";
import { cacheFolder, defaultCacheDir, isHubId } from "./cache.ts";
import { openGguf } from "./gguf.ts";
import { ggufArchitecture, ggufConfig } from "./gguf-config.ts";
import { ggufTokenizer } from "./gguf-tokenizer.ts";
import { ggufWeights } from "./gguf-weights.ts";
import { openSafetensors } from "./safetensors.ts";
import type { WeightSource } from "./weight-source.ts";

export interface ModelFiles {
  /** The hub id, or the name of the folder or file. */
  readonly name: string;
  /** As in `config.json`. */
  readonly config: JsonObject;
  /** Where `config` was read: `<folder>/config.json`, or the .gguf file. */
  readonly configPath: string;
  /** Under Hugging Face names. */
  readonly weights: WeightSource;
  /** As in `tokenizer.json`. */
  readonly tokenizer: JsonObject;
  /** As in `tokenizer_config.json`, with `chat_template` merged in from wherever the folder keeps it. */
  readonly tokenizerConfig: JsonObject;
  /** As in `generation_config.json`; empty if there is none. */
  readonly generationConfig: JsonObject;
  close(): Promise<void>;
}

export interface OpenModelOptions {
  /** Default: `FLYWHEEL_CACHE`, or `~/.cache/flywheel`. */
  readonly cacheDir?: string;
  /** Revision of a hub id; default "main". */
  readonly revision?: string;
}

/**
 * Opens a model folder, a `.gguf` file, a `.safetensors` file (with config.json and tokenizer.json beside it), or a hub id
 * that has been pulled. Reads headers only; weights are read by name. ModelError or TokenizerError in one line.
 */
export async function openModelFiles(spec: string, options: OpenModelOptions = {}): Promise<ModelFiles> {
  const found = await statOf(spec);
  if (found?.isDirectory()) return openFolder(basename(resolve(spec)), spec);
  if (found !== undefined) return openModelFile(spec);
  const here = resolve(spec);
  if (!isHubId(spec) || [".gguf", ".safetensors", ".json"].includes(extname(spec))) {
    throw new ModelError(expected(`model ${spec}`, "a folder, a .gguf or .safetensors file, or a hub id", `nothing at ${here}`));
  }
  const folder = cacheFolder(options.cacheDir ?? defaultCacheDir(), spec, options.revision ?? "main");
  if ((await statOf(folder)) !== undefined) return openFolder(spec, folder);
  // A first part that is a folder here (models/x) says that a path was meant.
  const isPath = spec.includes("/") && (await statOf(dirname(spec))) !== undefined;
  if (isPath) throw new ModelError(expected(`model ${spec}`, `a model at ${here}`, "nothing there", "check the path"));
  const remedy = `check the path, or run flywheel pull ${spec} if it is a hub id`;
  throw new ModelError(expected(`model ${spec}`, `a model at ${here} or a pulled one at ${folder}`, "neither", remedy));
}

/** Undefined for what is not there; what the system refuses to say (a folder without permission) is an error. */
async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new ModelError(diskProblem(cause, path) ?? messageOf(cause), { cause });
  }
}

function openModelFile(path: string): Promise<ModelFiles> {
  const name = basename(path).replace(/\.(gguf|safetensors|safetensors\.index\.json)$/, "");
  if (path.endsWith(".gguf")) return openGgufModel(name, path);
  if (path.endsWith(".safetensors") || path.endsWith(".safetensors.index.json")) return openHuggingFace(name, dirname(path), path);
  throw new ModelError(expected(`model ${path}`, "a .gguf or .safetensors file", `a file named ${basename(path)}`));
}

async function openFolder(name: string, folder: string): Promise<ModelFiles> {
  const files = (await readdir(folder)).sort();
  const tensors = files.filter((file) => file.endsWith(".safetensors"));
  const indices = files.filter((file) => file.endsWith(".safetensors.index.json"));
  const weights = ["model.safetensors", "model.safetensors.index.json"].find((file) => files.includes(file))
    ?? (indices.length === 1 ? indices[0] : tensors.length === 1 ? tensors[0] : undefined);
  if (weights !== undefined) return openHuggingFace(name, folder, join(folder, weights));
  const ggufs = files.filter((file) => file.endsWith(".gguf"));
  if (ggufs.length === 1 && tensors.length === 0) return openGgufModel(name, join(folder, ggufs[0]!));
  const partial = files.some((file) => file.endsWith(".part"));
  const remedy = partial ? "the download is incomplete: run flywheel pull again" : "name the file itself";
  const got = [...tensors, ...ggufs].join(", ") || "no weight file";
  throw new ModelError(expected(folder, "model.safetensors, its index, or one .gguf file", got, remedy));
}

async function openGgufModel(name: string, path: string): Promise<ModelFiles> {
  const source = await openGguf(path);
  try {
    const config = await ggufConfig(source);
    const weights = ggufWeights(source, ggufArchitecture(source), config);
    return { name, config, configPath: path, weights, ...ggufTokenizer(source), close: () => weights.close() };
  } catch (error) {
    await source.close();
    throw error;
  }
}

async function openHuggingFace(name: string, folder: string, weightPath: string): Promise<ModelFiles> {
  const configPath = join(folder, "config.json");
  const config = await readJsonObject(configPath);
  const tokenizer = await readJsonObject(join(folder, "tokenizer.json"));
  const tokenizerConfig = await withChatTemplate(folder, await readJsonObject(join(folder, "tokenizer_config.json"), {}));
  const generationConfig = await readJsonObject(join(folder, "generation_config.json"), {});
  const weights = await openSafetensors(weightPath);
  return { name, config, configPath, weights, tokenizer, tokenizerConfig, generationConfig, close: () => weights.close() };
}

/** Newer folders keep the template in a file of its own, which then counts. */
async function withChatTemplate(folder: string, tokenizerConfig: JsonObject): Promise<JsonObject> {
  const template = await readFile(join(folder, "chat_template.jinja"), "utf8").catch(() => undefined);
  if (template !== undefined) return { ...tokenizerConfig, chat_template: template };
  const { chat_template: older } = await readJsonObject(join(folder, "chat_template.json"), {});
  return older === undefined ? tokenizerConfig : { ...tokenizerConfig, chat_template: older };
}

/** A JSON object from a file; `fallback` stands for an absent file. */
async function readJsonObject(path: string, fallback?: JsonObject): Promise<JsonObject> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    if (fallback !== undefined && (cause as NodeJS.ErrnoException).code === "ENOENT") return fallback;
    const remedy = `a model folder needs ${basename(path)} beside its weights`;
    throw new ModelError(expected(dirname(path), basename(path), `none (${messageOf(cause).split(",")[0]})`, remedy), { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ModelError(expected(path, "JSON", messageOf(cause).replaceAll("\n", " ")), { cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new ModelError(expected(path, "a JSON object", JSON.stringify(value).slice(0, 40)));
}
