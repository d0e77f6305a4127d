/** Where downloaded models live: `<cache>/<organisation>--<name>/<revision>/`. */
import { homedir } from "node:os";
import { join } from "node:path";
import { ModelError, expected } from "../../../errors.ts";

/** The folder that holds all downloaded models: `FLYWHEEL_CACHE`, or `~/.cache/flywheel`. */
export function defaultCacheDir(): string {
  return process.env["FLYWHEEL_CACHE"] ?? join(homedir(), ".cache", "flywheel");
}

/** True if the text has the form of a hub id: `organisation/name`, or a bare `name`. */
export function isHubId(text: string): boolean {
  return /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/.test(text) && !text.includes("--") && !text.includes("..");
}

/** The folder of one model at one revision (a branch, tag or commit). ModelError if the id is malformed. */
export function cacheFolder(cacheDir: string, id: string, revision: string): string {
  if (!isHubId(id)) throw new ModelError(expected("model", "a hub id such as organisation/name", JSON.stringify(id)));
  const safeRevision = encodeURIComponent(revision);
  if (/^\.*$/.test(safeRevision)) throw new ModelError(expected(`model ${id}`, "a revision", JSON.stringify(revision)));
  return join(cacheDir, id.replace("/", "--"), safeRevision);
}
