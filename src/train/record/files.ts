/**
 * Durable writing. A whole file appears complete or not at all (temp + fsync + rename + fsync of the folder); a line is
 * appended with its line end and fsync, so that after a kill only the last line can be torn, and a torn line has no line end.
 */
import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readFile, readdir, rename, rm, rmdir, truncate } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

const TEMPORARY = ".tmp-";

/** A name beside `path` that `removeTemporaries` recognises as left over. */
export function temporaryName(path: string): string {
  return join(dirname(path), `${TEMPORARY}${basename(path)}-${process.pid}-${randomBytes(4).toString("hex")}`);
}

export async function removeTemporaries(folder: string): Promise<void> {
  for (const name of await listFolder(folder)) {
    if (name.startsWith(TEMPORARY)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** Names in a folder, sorted, temporaries included; none if the folder does not exist. */
export async function listFolder(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort();
  } catch (cause) {
    if (isMissing(cause)) return [];
    throw cause;
  }
}

export async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = temporaryName(path);
  const file = await open(temporary, "wx");
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  await syncFolder(dirname(path));
}

/** Appends lines (given without line ends) in one write, durable on return; a write that fails (disk full) is taken back. */
export async function appendLines(path: string, lines: readonly string[]): Promise<void> {
  if (lines.length === 0) return;
  const file = await open(path, "a");
  const { size } = await file.stat();
  try {
    await file.writeFile(lines.map((line) => `${line}\n`).join(""));
    await file.sync();
  } catch (cause) {
    await file.truncate(size).catch(() => undefined);
    throw cause;
  } finally {
    await file.close();
  }
}

/** Complete lines of a file, and how many bytes they take; what follows the last line end is torn and left out. */
export async function readLines(path: string): Promise<{ readonly lines: string[]; readonly bytes: number; readonly torn: number }> {
  const content = await readIfThere(path);
  const bytes = content.lastIndexOf(0x0a) + 1;
  const lines =
    bytes === 0
      ? []
      : content
          .subarray(0, bytes - 1)
          .toString("utf8")
          .split("\n");
  return { lines, bytes, torn: content.length - bytes };
}

/** Cuts a file of lines to its first `keep` lines (and always a torn end). */
export async function cutLines(path: string, keep: number): Promise<void> {
  const { lines, bytes, torn } = await readLines(path);
  if (keep >= lines.length && torn === 0) return;
  const size = keep >= lines.length ? bytes : lines.slice(0, keep).reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
  await truncate(path, size);
  await syncPath(path, "r+");
}

async function readIfThere(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    if (isMissing(cause)) return Buffer.alloc(0);
    throw cause;
  }
}

export function isMissing(cause: unknown): boolean {
  return hasCode(cause, "ENOENT");
}

export function hasCode(cause: unknown, ...codes: readonly string[]): boolean {
  return cause instanceof Error && "code" in cause && codes.includes(String(cause.code));
}

/** Makes a folder and those above it; the first that was not there, or undefined. */
export async function makeFolder(folder: string): Promise<string | undefined> {
  const first = await mkdir(folder, { recursive: true });
  if (first !== undefined) await syncFolder(dirname(first));
  return first;
}

/** Removes a folder that `makeFolder` made and those above it up to `first`, as far as they are empty. */
export async function removeMade(folder: string, first: string): Promise<void> {
  for (let at = resolve(folder); at.startsWith(resolve(first)); at = dirname(at)) {
    const isGone = await rmdir(at).then(() => true, () => false);
    if (!isGone) return;
  }
}

/** Makes a rename or a new name durable. Windows cannot open folders and needs no such call. */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  await syncPath(folder, "r");
}

/** fsync of every file below `folder` and of the folders themselves. */
export async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else await syncPath(path, "r+");
  }
  await syncFolder(folder);
}

async function syncPath(path: string, flags: string): Promise<void> {
  const file = await open(path, flags);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

export async function sha256File(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
