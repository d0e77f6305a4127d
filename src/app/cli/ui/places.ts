/** Paths and sizes as they are given and shown on the command line. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, relative, resolve } from "node:path";

/** A path made absolute if something is there; anything else (a hub id) stays as it is. */
export function pathFrom(cwd: string, spec: string): string {
  const path = resolve(cwd, spec);
  return existsSync(path) ? path : spec;
}

/** The model cache that the environment names, as an option; nothing for the default one. */
export function cacheOption(environment: NodeJS.ProcessEnv, given?: string): { readonly cacheDir?: string } {
  const folder = given ?? environment.FLYWHEEL_CACHE ?? "";
  return folder === "" ? {} : { cacheDir: folder };
}

/** The shortest way to write a path that a shell in `cwd` understands. */
export function shownPath(cwd: string, path: string): string {
  const inside = relative(cwd, path);
  if (inside !== "" && !inside.startsWith("..") && !isAbsolute(inside)) return inside;
  return path.startsWith(join(homedir(), "/")) ? `~/${relative(homedir(), path)}` : path;
}

/** `538 MB`: three significant digits, powers of 1000. */
export function byteSize(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]!}`;
}
