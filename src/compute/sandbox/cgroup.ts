/**
 * A limit on the memory and the processes of a whole run, where this process may make control groups (root, version 1 or 2). Address
 * space limits count each process alone; only this counts them together.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface ControlGroup {
  /** Moves a process in, with all that it starts from then on. */
  add(pid: number, limits: { readonly bytes: number; readonly processes: number }): void;
  /** How often the kernel has ended a process of the group for its memory, so far. */
  kills(): number;
  remove(): void;
}

export interface ControlGroups {
  readonly version: 1 | 2;
  make(name: string): ControlGroup;
}

const ROOT = "/sys/fs/cgroup";
const PREFIX = "flywheel-";

/** The control groups that this process may make, or null. Removes those that a process left which is no more. */
export function findControlGroups(): ControlGroups | null {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return null;
  const version = existsSync(join(ROOT, "cgroup.controllers")) ? 2 : 1;
  const parents = version === 2 ? [ROOT] : [join(ROOT, "memory"), join(ROOT, "pids")];
  const groups: ControlGroups = {
    version,
    make: (name) =>
      make(
        version,
        parents.map((parent) => join(parent, `${PREFIX}${process.pid}-${name}`)),
      ),
  };
  try {
    for (const parent of parents) sweep(parent);
    groups.make("probe").remove();
    return groups;
  } catch {
    return null;
  }
}

function sweep(parent: string): void {
  for (const name of readdirSync(parent)) {
    const owner = name.startsWith(PREFIX) ? /^\d+/.exec(name.slice(PREFIX.length))?.[0] : undefined;
    if (owner !== undefined && !existsSync(`/proc/${owner}`)) removeFolder(join(parent, name));
  }
}

function make(version: 1 | 2, folders: readonly string[]): ControlGroup {
  const [memory, pids] = [folders[0]!, folders.at(-1)!];
  for (const folder of folders) if (!existsSync(folder)) mkdirSync(folder);
  const limit = (bytes: number, processes: number): void => {
    writeFileSync(join(memory, version === 2 ? "memory.max" : "memory.limit_in_bytes"), String(bytes));
    const swap = join(memory, "memory.swap.max");
    if (version === 2 && existsSync(swap)) writeFileSync(swap, "0");
    writeFileSync(join(pids, "pids.max"), String(processes));
  };
  const remove = (): void => folders.forEach(removeFolder);
  try {
    limit(1 << 28, 64);
  } catch (cause) {
    remove();
    throw cause;
  }
  return {
    add: (pid, { bytes, processes }) => {
      limit(bytes, processes);
      for (const folder of folders) writeFileSync(join(folder, "cgroup.procs"), String(pid));
    },
    kills: () => counted(join(memory, version === 2 ? "memory.events" : "memory.oom_control")),
    remove,
  };
}

/** A group in which a process is still dying cannot go; the next sweep takes it. */
function removeFolder(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    return;
  }
}

function counted(path: string): number {
  return Number(/^oom_kill (\d+)$/m.exec(readFileSync(path, "utf8"))?.[1] ?? 0);
}
