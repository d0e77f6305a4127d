/**
 * What every sandbox can do: run a program that nobody trusts, within limits that are enforced from outside it. Nothing here falls
 * back to running without isolation.
 */
import { expected, SandboxError } from "../../errors.ts";

export type SandboxLanguage = "python" | "javascript" | "typescript";

export interface SandboxLimits {
  /** Seconds of wall time of the run itself; waiting for a free slot does not count. */
  readonly wallSeconds: number;
  /** Seconds of processor time of any one process. */
  readonly cpuSeconds: number;
  /** Address space of any one process, and resident memory of all together where the machine can limit that; MiB. */
  readonly memoryMegabytes: number;
  /** Processes and threads at once. */
  readonly processes: number;
  /** Size of any one file, and of all temporary files together; MiB. */
  readonly diskMegabytes: number;
  /** Bytes kept of stdout and of stderr, each. What goes beyond is dropped, and 256 times as much ends the run. */
  readonly outputBytes: number;
}

const DEFAULT_LIMITS: SandboxLimits = {
  wallSeconds: 10,
  cpuSeconds: 5,
  memoryMegabytes: 512,
  processes: 24,
  diskMegabytes: 32,
  outputBytes: 65_536,
};

/** Node reserves more address space and starts more threads than CPython. */
export const NODE_MINIMUM = { memoryMegabytes: 1024, processes: 64 } as const;

export interface SandboxRun {
  /** Relative path to content; the program finds them in its working folder. */
  readonly files?: Readonly<Record<string, string>>;
  /** What to run: a program of the system with its arguments, or a source text in a language. */
  readonly program: { readonly command: readonly string[] } | { readonly language: SandboxLanguage; readonly source: string };
  readonly stdin?: string;
  /** Folders of this machine that the program may read, by their path inside, such as "/toolchain". Any user must be able to read them. */
  readonly mounts?: Readonly<Record<string, string>>;
  readonly limits?: Partial<SandboxLimits>;
  /** Abort: the run is ended (or leaves the queue) and `run` rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** What ended a run early; null where the program ended by itself. */
export type KilledBy = "wall" | "cpu" | "memory" | "output" | "signal" | null;

export interface SandboxResult {
  /** Exit code; null where the run was ended. It is what the program says of itself, and no verdict. */
  readonly exit: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly truncated: { readonly stdout: boolean; readonly stderr: boolean };
  /** Seconds from the start of the program to its end, without the time in the queue. */
  readonly seconds: number;
  readonly killedBy: KilledBy;
}

/** Two programs that share nothing but one channel: what is examined, and what examines it and reports. */
export interface SandboxPair {
  readonly examiner: PairMember;
  readonly candidate: PairMember;
  readonly limits?: Partial<SandboxLimits>;
  readonly signal?: AbortSignal;
}

export interface PairMember {
  /** Programs of the package (folder `guest/`), by name. */
  readonly guest: "python-examiner" | "python-candidate" | "javascript-examiner" | "javascript-candidate";
  readonly stdin: string;
}

export interface PairResult {
  /** What the examiner wrote to the report channel, which the candidate does not have. */
  readonly report: string;
  readonly examiner: SandboxResult;
  readonly candidate: SandboxResult;
}

export interface Sandbox extends AsyncDisposable {
  readonly name: "bubblewrap" | "quickjs";
  readonly languages: readonly SandboxLanguage[];
  /** Queues the run for a free slot. Rejects with `SandboxError` if it could not be isolated or started; never for what the program did. */
  run(run: SandboxRun): Promise<SandboxResult>;
  /** As `run`, for an examiner and a candidate in two isolations of their own. */
  examine(pair: SandboxPair): Promise<PairResult>;
  /** Ends what runs, empties the queue and removes temporary files. */
  close(): Promise<void>;
}

/** The limits with their defaults; refuses what is no positive number. */
export function limitsWith(given: Partial<SandboxLimits> = {}): SandboxLimits {
  const limits = { ...DEFAULT_LIMITS, ...given };
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) {
      throw new SandboxError(expected("sandbox limits", Object.keys(DEFAULT_LIMITS).join(", "), JSON.stringify(name)));
    }
    if (!(value > 0 && Number.isFinite(value))) {
      throw new SandboxError(expected(`sandbox limit ${name}`, "a positive number", String(value)));
    }
  }
  return limits;
}

const MAX_FILES = 256;
const MAX_BYTES = 16 * 1024 * 1024;

/** Refuses paths that leave the working folder, and more than 256 files or 16 MiB. */
export function checkFiles(files: Readonly<Record<string, string>>): void {
  const entries = Object.entries(files);
  if (entries.length > MAX_FILES) throw new SandboxError(expected("sandbox files", `at most ${MAX_FILES}`, String(entries.length)));
  let bytes = 0;
  for (const [path, content] of entries) {
    const parts = path.split("/");
    if (
      path === "" ||
      path.length > 200 ||
      /[\\\u0000-\u001f]/.test(path) ||
      parts.some((part) => part === "" || part === "." || part === "..")
    ) {
      throw new SandboxError(expected("sandbox file", "a relative path without . and ..", JSON.stringify(path.slice(0, 80))));
    }
    bytes += Buffer.byteLength(content);
  }
  if (bytes > MAX_BYTES) throw new SandboxError(expected("sandbox files", `at most ${MAX_BYTES} bytes together`, `${bytes} bytes`));
}
