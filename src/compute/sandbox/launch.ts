/**
 * One isolated process seen from outside: its output is capped where it is read, its time is kept by the clock of this process, and its
 * end is the end of everything it started (it is the root of a pid namespace).
 */
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import type { Duplex, Readable, Writable } from "node:stream";
import { expected, SandboxError } from "../../errors.ts";
import type { ControlGroup } from "./cgroup.ts";
import type { KilledBy, SandboxLimits, SandboxResult } from "./sandbox.ts";

/** File descriptors beyond the usual three. */
const STATUS = 3;
const CHANNEL = 4;
const REPORT = 5;
const GO = 6;
const FLOOD = 256;
const REPORT_BYTES = 4 * 1024 * 1024;

export interface Launch {
  /** Arguments of bwrap up to the program, without the status descriptor. */
  readonly isolation: readonly string[];
  readonly command: readonly string[];
  readonly stdin: string;
  readonly limits: SandboxLimits;
  /** Runs as this user, who is nobody else; null keeps the present user. */
  readonly userId: number | null;
  readonly programs: { readonly bwrap: string; readonly prlimit: string };
  readonly group: ControlGroup | null;
  /** "report" opens a channel and a report; another process's channel end joins the two; null opens neither. */
  readonly channel: "report" | Duplex | null;
}

/** Starts the process, which waits until `go` is called. */
export function launch(given: Launch): Launched {
  const { programs, userId } = given;
  const report = given.channel === "report";
  const stdio: StdioOptions = [
    "pipe",
    "pipe",
    "pipe",
    "pipe",
    given.channel === null ? "ignore" : report ? "pipe" : given.channel,
    report ? "pipe" : "ignore",
    "pipe",
  ];
  const identity = userId === null ? {} : { uid: userId, gid: userId };
  const program = userId === null ? withCount(given) : given.command;
  // The shell waits until the process is in its control group: what it starts is then in it too.
  const line = [
    "-c",
    `read -r go <&${GO} && exec ${GO}<&- "$@"`,
    "sh",
    programs.prlimit,
    ...rlimits(given.limits, userId !== null),
    "--",
    programs.bwrap,
    "--json-status-fd",
    String(STATUS),
    ...given.isolation,
    "--",
    ...program,
  ];
  const child = spawn("/bin/sh", line, { stdio, ...identity, cwd: "/", env: { PATH: "/usr/bin:/bin" }, windowsHide: true });
  return new Launched(child, given);
}

function rlimits(limits: SandboxLimits, countProcesses: boolean): string[] {
  const memory = Math.round(limits.memoryMegabytes * 1024 * 1024);
  return [
    `--as=${memory}`,
    `--cpu=${Math.ceil(limits.cpuSeconds)}`,
    `--fsize=${Math.round(limits.diskMegabytes * 1024 * 1024)}`,
    "--nofile=256",
    "--core=0",
    "--memlock=0",
    ...(countProcesses ? [`--nproc=${limits.processes}`] : []),
  ];
}

/** Inside the isolation's own user namespace the count is its own, on kernels from 5.14 on. Before, it is the user's. */
function withCount({ programs, limits, command }: Launch): readonly string[] {
  return [programs.prlimit, `--nproc=${limits.processes}`, "--", ...command];
}

/** The types know five descriptors; there are seven. */
type Streams = readonly (Duplex | null)[];

export class Launched {
  readonly child: ChildProcess;
  private readonly given: Launch;
  private readonly stdout: Capped;
  private readonly stderr: Capped;
  private readonly status: Capped;
  private readonly reported: Capped | null;
  private readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  private killedBy: KilledBy = null;
  private failure: Error | null = null;
  private started = 0;
  private killsBefore = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(child: ChildProcess, given: Launch) {
    this.child = child;
    this.given = given;
    const { outputBytes } = given.limits;
    const flood = (): void => this.kill("output");
    const streams = child.stdio as unknown as Streams;
    this.stdout = new Capped(streams[1]!, outputBytes, { most: outputBytes * FLOOD, flood });
    this.stderr = new Capped(streams[2]!, outputBytes, { most: outputBytes * FLOOD, flood });
    this.status = new Capped(streams[STATUS]!, 4096, { most: 65_536, flood });
    this.reported = given.channel === "report" ? new Capped(streams[REPORT]!, REPORT_BYTES, { most: REPORT_BYTES, flood }) : null;
    this.ended = new Promise((resolve) => {
      child.once("error", (cause) => {
        this.failure = cause;
        resolve({ code: null, signal: null });
      });
      child.once("close", (code, signal) => resolve({ code, signal }));
    });
  }

  /** This process's end of the channel; hand it to the other member and destroy it before the next turn of the event loop. */
  get channel(): Duplex {
    return (this.child.stdio as unknown as Streams)[CHANNEL]!;
  }

  /** Puts the process into its group, lets it begin and starts its clock. */
  go(): void {
    const { group, limits, stdin } = this.given;
    if (this.child.pid === undefined) return;
    try {
      const bytes = Math.round((limits.memoryMegabytes + limits.diskMegabytes) * 1024 * 1024);
      this.killsBefore = group?.kills() ?? 0;
      group?.add(this.child.pid, { bytes, processes: limits.processes + 8 });
    } catch (cause) {
      this.failure = cause as Error;
      this.kill("signal");
      return;
    }
    this.started = performance.now();
    this.timer = setTimeout(() => this.kill("wall"), limits.wallSeconds * 1000);
    const streams = this.child.stdio as unknown as Streams;
    give(streams[GO]!, "go\n");
    give(streams[0]!, stdin);
  }

  kill(why: KilledBy): void {
    this.killedBy ??= why;
    this.child.kill("SIGKILL");
  }

  /** Text of the report channel, after the end. */
  get report(): string {
    return this.reported?.text ?? "";
  }

  /** The end of the run. Rejects with `SandboxError` if the isolation was never made. */
  async result(): Promise<SandboxResult> {
    const { code, signal } = await this.ended;
    clearTimeout(this.timer);
    const seconds = this.started === 0 ? 0 : (performance.now() - this.started) / 1000;
    if (this.failure !== null) throw new SandboxError(`sandbox: it could not start: ${this.failure.message}`, { cause: this.failure });
    const exited = /"exit-code": (\d+)/.exec(this.status.text)?.[1];
    if (exited === undefined && this.killedBy === null && !this.ranOutOfMemory()) {
      const got = this.stderr.text.trim().slice(-300) || `exit code ${code}, signal ${signal}`;
      throw new SandboxError(expected("sandbox", "an isolation to start", got, "run `flywheel doctor`"));
    }
    const killedBy = this.killedBy ?? this.causeOf(exited === undefined ? null : Number(exited));
    return {
      exit: killedBy === null ? Number(exited) : null,
      stdout: this.stdout.text,
      stderr: this.stderr.text,
      truncated: { stdout: this.stdout.truncated, stderr: this.stderr.truncated },
      seconds,
      killedBy,
    };
  }

  private ranOutOfMemory(): boolean {
    return (this.given.group?.kills() ?? 0) > this.killsBefore;
  }

  /** bwrap reports a death by signal as 128 + signal. The kernel sends SIGXCPU, or SIGKILL at the hard limit, for processor time. */
  private causeOf(exit: number | null): KilledBy {
    if (exit === null) return "memory";
    if (exit === 137 && this.ranOutOfMemory()) return "memory";
    // V8 aborts, or traps, when it can get no more memory.
    if ([132, 133, 134].includes(exit) && this.stderr.heapIsFull) return "memory";
    if (exit === 152 || exit === 137) return "cpu";
    return exit > 128 && exit < 160 ? "signal" : null;
  }
}

/** Writing to a process that has ended is no error of ours. */
function give(stream: Writable, text: string): void {
  stream.on("error", () => undefined);
  stream.end(text);
}

/** The first `limit` bytes of a stream; the rest is read and dropped, until there is so much that it is a flood. */
class Capped {
  private readonly chunks: Buffer[] = [];
  /** V8 said so, even after the part that is kept. */
  heapIsFull = false;
  private kept = 0;
  private seen = 0;

  constructor(stream: Readable, limit: number, { most, flood }: { readonly most: number; readonly flood: () => void }) {
    stream.on("error", () => undefined);
    stream.on("data", (chunk: Buffer) => {
      this.seen += chunk.length;
      this.heapIsFull ||= chunk.includes("out of memory");
      if (this.kept < limit) {
        const part = chunk.subarray(0, limit - this.kept);
        this.chunks.push(Buffer.from(part));
        this.kept += part.length;
      }
      if (this.seen > most) {
        flood();
        stream.destroy();
      }
    });
  }

  get truncated(): boolean {
    return this.seen > this.kept;
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString("utf8");
  }
}
