/**
 * One writer a run folder. The lock names its owner (host, pid, start time of that process); the lock of a process that is gone
 * is taken over, also when its pid now belongs to another process.
 */
import { readFileSync } from "node:fs";
import { link, open, readFile, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { RunError, expected } from "../../errors.ts";
import { hasCode, isMissing, temporaryName } from "./files.ts";

const ownerSchema = z.strictObject({ host: z.string(), pid: z.int().positive(), started: z.string() });
type Owner = z.infer<typeof ownerSchema>;

export interface FolderLock {
  release(): Promise<void>;
}

/** Takes `<folder>/lock`, or refuses with the pid of the living owner. */
export async function lockFolder(folder: string): Promise<FolderLock> {
  const path = join(folder, "lock");
  const own: Owner = { host: hostname(), pid: process.pid, started: startOf(process.pid) ?? String(Date.now()) };
  const temporary = temporaryName(path);
  const file = await open(temporary, "wx");
  await file.writeFile(JSON.stringify(own));
  await file.sync();
  await file.close();
  try {
    // A link either makes the complete lock or fails: no reader ever sees an empty one.
    for (let attempt = 0; attempt < 3; attempt++) {
      if (await tryLink(temporary, path)) return { release: () => release(path, own) };
      await removeIfDead(folder, path);
    }
  } finally {
    await rm(temporary, { force: true });
  }
  throw new RunError(expected(`run folder ${folder}`, "to get its lock", "another process taking it at the same time", "try again"));
}

async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (cause) {
    if (hasCode(cause, "EEXIST")) return false;
    throw cause;
  }
}

async function removeIfDead(folder: string, path: string): Promise<void> {
  const text = await readText(path);
  if (text === null) return;
  const owner = parseOwner(text);
  if (owner !== null && isAlive(owner)) throw new RunError(refusal(folder, path, owner));
  const aside = temporaryName(path);
  try {
    await rename(path, aside);
  } catch (cause) {
    if (isMissing(cause)) return;
    throw cause;
  }
  // Another process may have taken over between the reading and the renaming: then the lock goes back to it.
  if ((await readText(aside)) !== text) await tryLink(aside, path);
  await rm(aside, { force: true });
}

function refusal(folder: string, path: string, owner: Owner): string {
  const where = owner.host === hostname() ? `process ${owner.pid}` : `process ${owner.pid} on host ${owner.host}`;
  const remedy = owner.host === hostname() ? "wait for it or stop it" : `if it is gone, remove ${path}`;
  return expected(`run folder ${folder}`, "no other writer", `a lock held by ${where}`, remedy);
}

function isAlive(owner: Owner): boolean {
  if (owner.host !== hostname()) return true;
  try {
    process.kill(owner.pid, 0);
  } catch (cause) {
    if (hasCode(cause, "ESRCH")) return false;
  }
  const started = startOf(owner.pid);
  return started === null || started === owner.started;
}

/** Boot id and start tick of a process: unique for ever on one host; null where there is no /proc; a zombie matches no start. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z") return "zombie";
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}:${fields[19]}`;
  } catch {
    return null;
  }
}

function parseOwner(text: string): Owner | null {
  try {
    return ownerSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    if (isMissing(cause)) return null;
    throw cause;
  }
}

async function release(path: string, own: Owner): Promise<void> {
  if ((await readText(path)) === JSON.stringify(own)) await rm(path, { force: true });
}
