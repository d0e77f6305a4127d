/**
 * Linux: each run is a user of its own in namespaces of its own (mount, pid, network, user, IPC, UTS, cgroup), made by bubblewrap, with
 * resource limits from outside. Started as root, it becomes an unused user id first, because the kernel exempts root from the limit on
 * processes.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SandboxError } from "../../errors.ts";
import type { ControlGroup, ControlGroups } from "./cgroup.ts";
import { launch, type Launch, type Launched } from "./launch.ts";
import { openToAll, type PoolFolder, systemMounts } from "./machine.ts";
import {
  checkFiles,
  limitsWith,
  NODE_MINIMUM,
  type PairMember,
  type PairResult,
  type Sandbox,
  type SandboxLimits,
  type SandboxPair,
  type SandboxResult,
  type SandboxRun,
} from "./sandbox.ts";
import { Slots } from "./slots.ts";
import { Transpiler } from "./transpile.ts";

interface BubblewrapParts {
  readonly programs: { readonly bwrap: string; readonly prlimit: string; readonly python: string | null };
  readonly folder: PoolFolder;
  readonly groups: ControlGroups | null;
  /** First user id of the pool, two a slot; null keeps the present user. */
  readonly userIds: number | null;
  readonly slots: number;
}

const GUEST = "/guest";
const NODE = "/runtime/node";
const NODE_FLAGS = ["--max-old-space-size=256", "--no-warnings", "--disable-proto=delete"];

export class Bubblewrap implements Sandbox {
  readonly name = "bubblewrap";
  readonly languages: Sandbox["languages"];
  private readonly parts: BubblewrapParts;
  private readonly slots: Slots;
  private readonly transpiler = new Transpiler();
  private readonly running = new Set<Launched>();
  private readonly groups = new Map<string, ControlGroup>();
  private runs = 0;
  private mounts: readonly string[] | null = null;

  constructor(parts: BubblewrapParts) {
    this.parts = parts;
    this.slots = new Slots(parts.slots);
    this.languages = parts.programs.python === null ? ["javascript", "typescript"] : ["python", "javascript", "typescript"];
  }

  async run({ files = {}, program, stdin = "", mounts = {}, limits: given, signal }: SandboxRun): Promise<SandboxResult> {
    const isNode = "language" in program && program.language !== "python";
    const limits = withRuntime(limitsWith(given), isNode);
    const prepared = await this.prepare(files, program, signal);
    checkFiles(prepared.files);
    return this.slots.use(signal, async (slot) => {
      const folder = join(this.parts.folder.path, `run-${this.runs++}`);
      await writeFiles(folder, prepared.files);
      try {
        const shared = Object.entries({ ...mounts, "/box": folder }).flatMap(([path, source]) => ["--ro-bind", source, path]);
        const inside = await this.isolation(limits, { isNode, shared });
        // A copy, so that the program may change its files: they then live in a temporary file system with a size.
        const command = ["/bin/sh", "-c", 'cp -R /box/. /job/ && exec "$@"', "sh", ...prepared.command];
        const launched = this.launch({ slot, member: 0, isolation: inside, command, stdin, limits, channel: null });
        return await this.finish([launched], signal, async () => launched.result());
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  }

  async examine({ examiner, candidate, limits: given, signal }: SandboxPair): Promise<PairResult> {
    const limits = limitsWith(given);
    const [outer, inner] = await Promise.all([examiner, candidate].map((member) => this.member(member, limits)));
    return this.slots.use(signal, async (slot) => {
      const first = this.launch({ slot, member: 1, ...outer!, channel: "report" });
      const second = this.launch({ slot, member: 0, ...inner!, channel: first.channel });
      first.channel.destroy();
      return this.finish([first, second], signal, async () => {
        const examined = first.result().finally(() => second.kill("signal"));
        const [one, two] = await Promise.all([examined, second.result()]);
        return { report: first.report, examiner: one, candidate: two };
      });
    });
  }

  async close(): Promise<void> {
    this.slots.close();
    for (const launched of this.running) launched.kill("signal");
    await Promise.all([...this.running].map((launched) => launched.result().catch(() => undefined)));
    await this.transpiler.close();
    await this.parts.folder.remove();
    for (const group of this.groups.values()) group.remove();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private launch({
    slot,
    member,
    ...rest
  }: Omit<Launch, "userId" | "programs" | "group"> & { readonly slot: number; readonly member: 0 | 1 }): Launched {
    const { programs, userIds, groups } = this.parts;
    const name = `${slot}-${member}`;
    let group = this.groups.get(name) ?? null;
    if (group === null && groups !== null) {
      group = groups.make(name);
      this.groups.set(name, group);
    }
    return launch({ ...rest, programs, group, userId: userIds === null ? null : userIds + 2 * slot + member });
  }

  /** Lets the processes begin, and ends all of them with the body, with an abort, and with each other. */
  private async finish<T>(launched: readonly Launched[], signal: AbortSignal | undefined, body: () => Promise<T>): Promise<T> {
    const abort = (): void => launched.forEach((one) => one.kill("signal"));
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted === true) abort();
    for (const one of launched) this.running.add(one);
    try {
      for (const one of launched) one.go();
      const result = await body();
      signal?.throwIfAborted();
      return result;
    } finally {
      abort();
      signal?.removeEventListener("abort", abort);
      await Promise.all(launched.map((one) => one.result().catch(() => undefined)));
      for (const one of launched) this.running.delete(one);
    }
  }

  private async prepare(
    files: Readonly<Record<string, string>>,
    program: SandboxRun["program"],
    signal: AbortSignal | undefined,
  ): Promise<{ readonly files: Readonly<Record<string, string>>; readonly command: readonly string[] }> {
    if ("command" in program) return { files, command: program.command };
    if (program.language === "python") {
      return { files: { ...files, "main.py": program.source }, command: [this.python(), "-I", "-B", "-X", "utf8", "main.py"] };
    }
    const compiled = await this.transpiler.compile(
      { ...files, [program.language === "javascript" ? "main.js" : "main.ts"]: program.source },
      signal,
    );
    const flags = [...NODE_FLAGS, join(GUEST, "javascript", "main.cjs")];
    return { files: compiled, command: [NODE, ...flags] };
  }

  private async member(
    { guest, stdin }: PairMember,
    limits: SandboxLimits,
  ): Promise<Omit<Launch, "userId" | "programs" | "group" | "channel">> {
    const isNode = guest.startsWith("javascript");
    const own = withRuntime(limits, isNode);
    const isolation = await this.isolation(own, { isNode, shared: [] });
    const role = guest.endsWith("examiner") ? "examiner" : "candidate";
    if (!isNode) {
      // Without -S the examiner sees the system's packages (pytest); the candidate imports them too, read-only.
      return { isolation, command: [this.python(), "-I", "-B", "-X", "utf8", `${GUEST}/python/${role}.py`], stdin, limits: own };
    }
    const reporter =
      role === "examiner" ? ["--test-reporter", `${GUEST}/javascript/reporter.cjs`, "--test-reporter-destination", "stdout"] : [];
    return { isolation, command: [NODE, ...NODE_FLAGS, ...reporter, `${GUEST}/javascript/${role}.cjs`], stdin, limits: own };
  }

  private python(): string {
    const { python } = this.parts.programs;
    if (python === null) throw new SandboxError("sandbox: expected /usr/bin/python3 for Python code, got none; apt-get install python3");
    return python;
  }

  private async isolation(
    limits: SandboxLimits,
    { isNode, shared }: { readonly isNode: boolean; readonly shared: readonly string[] },
  ): Promise<readonly string[]> {
    this.mounts ??= await systemMounts();
    const bytes = Math.round(limits.diskMegabytes * 1024 * 1024);
    const node = isNode ? ["--ro-bind", await this.parts.folder.node(), NODE] : [];
    const temporary = (path: string, size: number): readonly string[] => ["--size", String(Math.max(size, 4096)), "--tmpfs", path];
    return [
      ...this.mounts,
      "--ro-bind",
      this.parts.folder.guest,
      GUEST,
      ...node,
      "--proc",
      "/proc",
      "--dev",
      "/dev",
      ...temporary("/dev/shm", Math.round(bytes / 4)),
      "--remount-ro",
      "/dev",
      ...temporary("/tmp", Math.round(bytes / 4)),
      ...temporary("/job", Math.round(bytes / 2)),
      ...shared,
      "--chdir",
      "/job",
      "--remount-ro",
      "/",
      "--unshare-all",
      "--unshare-user",
      "--disable-userns",
      "--die-with-parent",
      "--new-session",
      "--hostname",
      "box",
      "--cap-drop",
      "ALL",
      "--clearenv",
      "--setenv",
      "PATH",
      "/usr/bin:/bin",
      "--setenv",
      "HOME",
      "/job",
      "--setenv",
      "LANG",
      "C.UTF-8",
    ];
  }
}

function withRuntime(limits: SandboxLimits, isNode: boolean): SandboxLimits {
  if (!isNode) return limits;
  return {
    ...limits,
    memoryMegabytes: Math.max(limits.memoryMegabytes, NODE_MINIMUM.memoryMegabytes),
    processes: Math.max(limits.processes, NODE_MINIMUM.processes),
  };
}

async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(folder);
  for (const [path, content] of Object.entries(files)) {
    const full = join(folder, path);
    await mkdir(dirname(full), { recursive: true });
    await writeFile(full, content);
  }
  await openToAll(folder);
}
