/**
 * What a run depends on beside its configuration, as hashes that a resumed run must equal: the content of files and folders, the tasks
 * and tools of its environment, and what whoever attached models says of them.
 */
import { createHash, type Hash } from "node:crypto";
import { existsSync } from "node:fs";
import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { cacheFolder, defaultCacheDir } from "../compute/models/files/cache.ts";
import { ConfigError, expected, messageOf } from "../errors.ts";
import type { Env, JsonObject, TaskSource } from "../types.ts";
import type { TrainConfig } from "./config.ts";
import { fingerprint } from "./record/fingerprint.ts";

/** Named by whoever attaches models or brings code that reads files. */
export interface ExtraInputs {
  /** Files and folders that are read; their content may not change. */
  readonly files?: readonly string[];
  /** Settings that no configuration has. */
  readonly settings?: JsonObject;
}

/** Bytes that are hashed whole; of a larger file its size and this many bytes in evenly spaced pieces. */
const most = 1 << 28;
const piece = 1 << 20;
/** Tasks of a split that are hashed, evenly spaced. */
const tasks = 64;

/** By name, the SHA-256 of each thing that the run reads. */
export async function inputsOf(
  { data, model, train }: TrainConfig,
  { env, extra = {}, signal }: { env?: Env | undefined; extra?: ExtraInputs | undefined; signal?: AbortSignal | undefined },
): Promise<Record<string, string>> {
  const place = existsSync(model.path) ? model.path : cacheFolder(defaultCacheDir(), model.path, "main");
  const ofModel = await contentHash(place, { names: /\.(safetensors|gguf|json|jinja)$/, signal });
  const inputs: Record<string, string> = { [`model ${model.path}`]: ofModel };
  const files = [...(data === undefined ? [] : [data]), ...(env?.inputs ?? []), ...(extra.files ?? [])];
  for (const path of files) inputs[path] = await contentHash(path, { signal });
  if (extra.settings !== undefined) inputs["settings of attached models"] = fingerprint(extra.settings);
  if (env !== undefined) inputs[`environment ${env.name}`] = environmentHash(env, train.evalEvery > 0);
  return inputs;
}

/** Its tools as the model is told of them, the sizes of its splits and some of their tasks. Functions have no hash. */
function environmentHash(env: Env, evaluated: boolean): string {
  const split = (source: TaskSource): JsonObject => {
    const count = Math.min(tasks, source.size);
    const places = Array.from({ length: count }, (_, i) => (Number.isFinite(source.size) ? Math.floor((i * source.size) / count) : i));
    return { size: String(source.size), tasks: places.map((place) => plain(source.at(place))) };
  };
  const train = split(env.tasks("train"));
  return fingerprint({ tools: env.tools.map(({ spec }) => plain(spec)), train, test: evaluated ? split(env.tasks("test")) : null });
}

const plain = (value: object): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;

/** SHA-256 of a file, or of all files in a folder (those whose names match) with their names. */
async function contentHash(path: string, { names = /^/, signal }: { names?: RegExp; signal: AbortSignal | undefined }): Promise<string> {
  try {
    const hash = createHash("sha256");
    if (!(await stat(path)).isDirectory()) await addFile(hash, path, signal);
    else {
      const found = (await readdir(path, { recursive: true })).filter((name) => names.test(name)).sort();
      for (const name of found) {
        const file = join(path, name);
        if ((await stat(file)).isFile()) await addFile(hash.update(name), file, signal);
      }
    }
    return hash.digest("hex");
  } catch (cause) {
    signal?.throwIfAborted();
    throw new ConfigError(expected(`input ${path}`, "a readable file or folder", messageOf(cause)), { cause });
  }
}

async function addFile(hash: Hash, path: string, signal?: AbortSignal): Promise<void> {
  await using file = await open(path);
  const { size } = await file.stat();
  const count = Math.ceil(Math.min(size, most) / piece);
  const buffer = Buffer.alloc(Math.min(size, piece));
  for (let i = 0; i < count; i++) {
    signal?.throwIfAborted();
    const at = size <= most ? i * piece : Math.floor((i * (size - piece)) / (count - 1));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
    hash.update(buffer.subarray(0, bytesRead));
  }
  if (size > most) hash.update(String(size));
}
