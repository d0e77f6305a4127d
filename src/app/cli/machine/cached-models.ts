/** Models that have been pulled. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

export interface CachedModel {
  readonly id: string;
  readonly revision: string;
  readonly bytes: number;
  /** False while a download is unfinished. */
  readonly complete: boolean;
}

/** Reads the cache's layout, `<organisation>--<name>/<revision>/`; anything else in it is passed over. */
export async function cachedModels(cacheDir: string): Promise<CachedModel[]> {
  const found: CachedModel[] = [];
  for (const model of await folders(cacheDir)) {
    for (const revision of await folders(join(cacheDir, model))) {
      const folder = join(cacheDir, model, revision);
      const names = await readdir(folder);
      const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
      const complete = names.some((name) => /\.(safetensors|gguf)$/.test(name)) && !names.some((name) => name.endsWith(".part"));
      const bytes = sizes.reduce((a, b) => a + b, 0);
      found.push({ id: model.replace("--", "/"), revision: decodeURIComponent(revision), bytes, complete });
    }
  }
  return found;
}

async function folders(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name).sort();
}
