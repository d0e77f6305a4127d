/** Which sandbox this machine has. It is tried with a real run; what does not isolate is refused, and nothing runs without isolation. */
import { execFile } from "node:child_process";
import { availableParallelism } from "node:os";
import { messageOf, SandboxError } from "../../errors.ts";
import { Bubblewrap } from "./bubblewrap.ts";
import { type ControlGroups, findControlGroups } from "./cgroup.ts";
import { findProgram, namespaceSettings, PoolFolder, userIdBase, versionIn } from "./machine.ts";
import { QuickJs } from "./quickjs.ts";
import type { Sandbox } from "./sandbox.ts";

export interface OpenSandboxOptions {
  /** "auto" takes bubblewrap where it works, else refuses; "quickjs" must be asked for, because it runs small JavaScript alone. */
  readonly kind?: "auto" | "bubblewrap" | "quickjs";
  /** Runs at once; the others wait in a queue. Default: twice the processors, at most 16. */
  readonly slots?: number;
  /** The Python of the runs; default the system's /usr/bin/python3. It must lie under /usr. */
  readonly python?: string;
}

/** Opens a sandbox. Throws `SandboxError` that says what is missing and how to get it. */
export async function openSandbox({ kind = "auto", slots, python }: OpenSandboxOptions = {}): Promise<Sandbox> {
  const count = slots ?? Math.min(16, 2 * availableParallelism());
  if (!Number.isInteger(count) || count < 1 || count > 256)
    throw new SandboxError(`sandbox slots: expected 1 to 256, got ${String(slots)}`);
  if (kind === "quickjs") return new QuickJs(count);
  const found = await findBubblewrap(count, python);
  if (typeof found !== "string") return found.sandbox;
  throw new SandboxError(`sandbox: expected an isolation for untrusted code, got none: ${found}; nothing is run without one`);
}

interface Found {
  readonly sandbox: Bubblewrap;
  readonly version: string | null;
  readonly groups: ControlGroups | null;
  readonly userIds: number | null;
  readonly python: string | null;
}

const INSTALL =
  "install it: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora), apk add bubblewrap util-linux (Alpine)";

/** An open sandbox that has passed its probe, or why there is none. */
async function findBubblewrap(slots: number, wantedPython: string | undefined): Promise<Found | string> {
  if (process.platform !== "linux")
    return `bubblewrap is for Linux, this is ${process.platform}; use kind "quickjs" for small JavaScript, or Linux`;
  const [bwrap, prlimit, python] = await Promise.all([findProgram("bwrap"), findProgram("prlimit"), findPython(wantedPython)]);
  if (bwrap === null) return `bubblewrap is not there; ${INSTALL}`;
  if (prlimit === null) return "prlimit is not there; apt-get install util-linux";
  const root = process.getuid?.() === 0;
  const userIds = userIdBase(2 * slots);
  if (root && userIds === null)
    return "this process is root and its user namespace maps too few user ids to become another; run as another user";
  const groups = findControlGroups();
  const sandbox = new Bubblewrap({ programs: { bwrap, prlimit, python }, folder: await PoolFolder.make(), groups, userIds, slots });
  const problem = await probe(sandbox);
  if (problem === null) return { sandbox, version: versionIn(await versionOf(bwrap)), groups, userIds, python };
  await sandbox.close();
  return problem;
}

/** A run that tells what it could see. */
async function probe(sandbox: Bubblewrap): Promise<string | null> {
  const script = "id -u; ls /; cat /proc/net/dev | wc -l; cat marker";
  try {
    const { exit, stdout, stderr } = await sandbox.run({
      program: { command: ["/bin/sh", "-c", script] },
      files: { marker: "inside" },
      limits: { wallSeconds: 20 },
    });
    const lines = stdout.trim().split("\n");
    if (exit !== 0 || lines.at(-1) !== "inside")
      return `a first run in bubblewrap failed: ${stderr.trim().slice(0, 200) || `exit code ${exit}`}`;
    const seen = lines.filter((line) => ["home", "root", "etc/passwd", "var"].includes(line));
    if (seen.length > 0 || lines[0] === "0") return `bubblewrap does not isolate here: ${lines.join(" ").slice(0, 200)}`;
    // Two header lines and the loopback device.
    if (Number(lines.at(-2)) > 3) return "bubblewrap gives no network namespace here";
    return null;
  } catch (cause) {
    return `bubblewrap cannot isolate here: ${messageOf(cause)} (${await namespaceSettings()})`;
  }
}

async function findPython(wanted: string | undefined): Promise<string | null> {
  const path = await findProgram(...(wanted === undefined ? ["/usr/bin/python3", "/usr/local/bin/python3"] : [wanted]));
  if (wanted !== undefined && (path === null || !path.startsWith("/usr/"))) {
    throw new SandboxError(`sandbox python: expected a program under /usr, which the runs see, got ${wanted}`);
  }
  return path;
}

function versionOf(program: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(program, ["--version"], { timeout: 5000 }, (error, stdout) => resolve(error === null ? stdout : ""));
  });
}

// ---------------------------------------------------------------------------------------------------------- report

export interface SandboxFinding {
  readonly name: "bubblewrap" | "quickjs";
  readonly available: boolean;
  readonly version: string | null;
  readonly isolated: readonly string[];
  readonly notIsolated: readonly string[];
  /** How to get it, or what is in its way; null where it works. */
  readonly remedy: string | null;
}

/** What each sandbox can do on this machine, each tried with a real run. */
export async function sandboxReport(): Promise<readonly SandboxFinding[]> {
  return Promise.all([bubblewrapFinding(), quickJsFinding()]);
}

async function bubblewrapFinding(): Promise<SandboxFinding> {
  const found = await findBubblewrap(1, undefined).catch((cause: unknown) => messageOf(cause));
  const none = { name: "bubblewrap", available: false, version: null, isolated: [], notIsolated: [] } as const;
  if (typeof found === "string") return { ...none, remedy: found };
  const { sandbox, version, groups, userIds, python } = found;
  await sandbox.close();
  const isolated = ["files (the system read-only, no home, no /etc)", "network (none)", "processes", "users", "IPC", "time", "output size"];
  const notIsolated = ["the kernel itself (no system-call filter)"];
  if (userIds === null) notIsolated.push("user id: the runs have yours; before Linux 5.14 the limit on processes counts your own too");
  else isolated.push("user id (one a run)");
  if (groups === null) notIsolated.push("memory of a whole run: limited for each process alone");
  else isolated.push(`memory and processes of a whole run (cgroup ${groups.version})`);
  if (python === null) notIsolated.push("Python: no /usr/bin/python3, so none is run");
  return { name: "bubblewrap", available: true, version, isolated, notIsolated, remedy: null };
}

async function quickJsFinding(): Promise<SandboxFinding> {
  const base = { name: "quickjs", version: null } as const;
  try {
    await using sandbox = new QuickJs(1);
    const { exit, stdout } = await sandbox.run({ program: { language: "javascript", source: "print(6 * 7)" } });
    if (exit !== 0 || stdout !== "42\n") throw new SandboxError(`a first run gave exit code ${exit} and ${JSON.stringify(stdout)}`);
  } catch (cause) {
    return { ...base, available: false, isolated: [], notIsolated: [], remedy: messageOf(cause) };
  }
  const isolated = ["files (none)", "network (none)", "processes (none)", "memory", "time", "output size"];
  return {
    ...base,
    available: true,
    isolated,
    notIsolated: ["the process: a fault in QuickJS or WebAssembly would be in yours"],
    remedy: null,
  };
}
