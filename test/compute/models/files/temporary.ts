import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

export const golden = fileURLToPath(new URL("../../../golden/gguf/", import.meta.url));

/** A folder that is gone when the test is over. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "flywheel-files-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
