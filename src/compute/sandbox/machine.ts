/** What of this machine a sandbox needs: programs, the package's own guest files where another user can read them, user ids. */
import { constants } from "node:fs";
import { access, chmod, copyFile, cp, link, lstat, mkdtemp, readFile, readdir, readlink, realpath, rm, stat } from "node:fs/promises";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The first of `names` that is an executable file, in the folders of PATH and the usual ones; null if there is none. */
export async function findProgram(...names: readonly string[]): Promise<string | null> {
  const folders = ["/usr/bin", "/usr/local/bin", "/bin", ...(process.env.PATH ?? "").split(delimiter)];
  for (const name of names) {
    for (const path of name.startsWith("/") ? [name] : folders.map((folder) => join(folder, name))) {
      if (
        await access(path, constants.X_OK).then(
          () => true,
          () => false,
        )
      )
        return path;
    }
  }
  return null;
}

const PREFIX = "flywheel-sandbox-";

/** Removes what a process left that was killed. */
async function sweep(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const owner = name.startsWith(PREFIX) ? /^\d+/.exec(name.slice(PREFIX.length))?.[0] : undefined;
    if (owner !== undefined && !isAlive(Number(owner)))
      await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => undefined);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Lets any user read a folder and everything in it, whatever this process's umask is. */
export async function openToAll(path: string): Promise<void> {
  await chmod(path, 0o755);
  for (const entry of await readdir(path, { withFileTypes: true, recursive: true })) {
    await chmod(join(entry.path, entry.name), entry.isDirectory() ? 0o755 : 0o644);
  }
}

/** A folder that any user may read, for one pool; gone when the pool is closed or the process ends. */
export class PoolFolder {
  readonly path: string;
  private readonly onExit: () => void;

  private constructor(path: string) {
    this.path = path;
    this.onExit = () => rmSync(path, { recursive: true, force: true });
    process.once("exit", this.onExit);
  }

  static async make(): Promise<PoolFolder> {
    await sweep();
    const path = await realpath(await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`)));
    const folder = new PoolFolder(path);
    await cp(guestFolder(), folder.guest, { recursive: true });
    await openToAll(path);
    return folder;
  }

  /** The package's guest programs: the package itself may lie in a home that others cannot enter. */
  get guest(): string {
    return join(this.path, "guest");
  }

  /** The program of this Node.js, where any user may read it. */
  async node(): Promise<string> {
    const source = await realpath(process.execPath);
    if (await readableByAll(source)) return source;
    const copy = join(this.path, "node");
    if (existsSync(copy)) return copy;
    if (
      ((await stat(source)).mode & 0o5) === 0o5 &&
      (await link(source, copy).then(
        () => true,
        () => false,
      ))
    )
      return copy;
    await copyFile(source, copy);
    await chmod(copy, 0o755);
    return copy;
  }

  async remove(): Promise<void> {
    process.removeListener("exit", this.onExit);
    await rm(this.path, { recursive: true, force: true });
  }
}

/** Whether a user who is nobody here may read a program or enter a folder: the path and each folder above it. */
export async function readableByAll(path: string): Promise<boolean> {
  if (((await stat(path)).mode & 0o5) !== 0o5) return false;
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    if (((await stat(folder)).mode & 0o1) === 0) return false;
  }
  return true;
}

/** `guest/` beside the package's package.json, wherever the compiled file lies. */
export function guestFolder(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (existsSync(manifest) && existsSync(join(folder, "guest"))) return join(folder, "guest");
  }
  throw new Error("flywheel: the folder guest/ of the package is missing; install the package again");
}

/**
 * Arguments that give an isolation this system's programs and libraries, read-only, and nothing of /etc, /home, /root, /var or /tmp.
 * Follows whether /bin and /lib are links into /usr.
 */
export async function systemMounts(): Promise<readonly string[]> {
  const mounts = ["--ro-bind", "/usr", "/usr"];
  for (const path of ["/bin", "/sbin", "/lib", "/lib32", "/lib64"]) {
    const found = await lstat(path).catch(() => null);
    if (found?.isSymbolicLink() === true) mounts.push("--symlink", await readlink(path), path);
    else if (found?.isDirectory() === true) mounts.push("--ro-bind", path, path);
  }
  for (const path of ["/etc/ld.so.cache", "/etc/alternatives"]) if (existsSync(path)) mounts.push("--ro-bind", path, path);
  return mounts;
}

/**
 * The first of a block of user ids that nobody has, its own for each process; null where this process cannot become another user.
 * `RLIMIT_NPROC` counts by user, so two pools must not share ids.
 */
export function userIdBase(count: number): number | null {
  if (process.getuid?.() !== 0) return null;
  const blocks = 4096;
  const wanted = 300_000 + (process.pid % blocks) * 512;
  const [, , size = 0] = /^\s*(\d+)\s+(\d+)\s+(\d+)/m.exec(readFileSync("/proc/self/uid_map", "utf8"))?.slice(1).map(Number) ?? [];
  if (wanted + count <= size) return wanted;
  // A container that maps few ids: the upper end of them.
  return size > 20_000 + count ? size - count - (process.pid % 64) * 128 - 1 : null;
}

/** "0.8.0" of a text like "bubblewrap 0.8.0". */
export function versionIn(text: string): string | null {
  return /\d+(?:\.\d+)+/.exec(text)?.[0] ?? null;
}

/** Kernel settings that decide whether a user other than root may isolate; for explanations. */
export async function namespaceSettings(): Promise<string> {
  const read = (path: string): Promise<string | null> =>
    readFile(path, "utf8").then(
      (text) => text.trim(),
      () => null,
    );
  const [max, clone, apparmor] = await Promise.all([
    read("/proc/sys/user/max_user_namespaces"),
    read("/proc/sys/kernel/unprivileged_userns_clone"),
    read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
  ]);
  if (max === "0") return "user.max_user_namespaces is 0";
  if (clone === "0") return "kernel.unprivileged_userns_clone is 0";
  if (apparmor === "1") return "kernel.apparmor_restrict_unprivileged_userns is 1";
  return "in a container, its security profile may forbid it";
}
