/** The real model, where the cache has it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder, defaultCacheDir } from "../../src/compute/models/files/cache.ts";

export const smolLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct";

/** Tests that need it are skipped where this is false; scripts/fetch-smollm2.sh makes it true. */
export const hasSmolLM2 = existsSync(join(cacheFolder(defaultCacheDir(), smolLM2, "main"), "model.gguf"));
