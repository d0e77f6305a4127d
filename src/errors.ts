/**
 * Boundary errors: the class says which boundary failed, the message says what was expected, what was found and what to do.
 * Authors of environments, rewards and tools throw plain errors; `boundary()` wraps them where they cross into the system.
 */
import type { Finite, Verdict } from "./types.ts";

export type BoundaryName = "config" | "model" | "tokenizer" | "policy" | "environment" | "reward" | "tool" | "sandbox" | "run";

/** Base of all errors that a person is meant to read; the command line prints its message alone, without a stack. */
export class FlywheelError extends Error {
  readonly boundary: BoundaryName;
  constructor(boundary: BoundaryName, message: string, options?: ErrorOptions) {
    super(message, options);
    this.boundary = boundary;
    this.name = new.target.name;
  }
}

export class ConfigError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("config", message, options);
  }
}
/** A weight file, a model folder, an architecture or a download. */
export class ModelError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("model", message, options);
  }
}
/** A tokenizer, a chat template or a tool-call dialect. */
export class TokenizerError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("tokenizer", message, options);
  }
}
/** Sampling, training or publishing by an engine. */
export class PolicyError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("policy", message, options);
  }
}
export class EnvError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("environment", message, options);
  }
}
export class RewardError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("reward", message, options);
  }
}
export class ToolError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("tool", message, options);
  }
}
/**
 * What a tool stands on is gone (a server, a service): thrown by a tool, it ends the episode as an infrastructure failure, which is not
 * graded. It is not told to the model, whose fault it is not.
 */
export class ToolUnavailableError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("tool", message, options);
  }
}
export class SandboxError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("sandbox", message, options);
  }
}
/** A run folder: taken, damaged, or of another configuration. */
export class RunError extends FlywheelError {
  constructor(message: string, options?: ErrorOptions) {
    super("run", message, options);
  }
}

/** `where: expected X, got Y; remedy`: the one form of every message. */
export function expected(where: string, want: string, got: string, remedy?: string): string {
  return `${where}: expected ${want}, got ${got}${remedy === undefined ? "" : `; ${remedy}`}`;
}

/** Runs `body`; anything it throws comes out as an error of the named boundary (an error that already has one stays). */
export async function boundary<T>(
  wrap: new (message: string, options?: ErrorOptions) => FlywheelError,
  where: string,
  body: () => T | Promise<T>,
): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    if (cause instanceof FlywheelError) throw cause;
    throw new wrap(`${where}: ${messageOf(cause)}`, { cause });
  }
}

/** What a system refuses, as people say it: what was expected, what was found, what to do. */
const REFUSALS: Readonly<Record<string, readonly [string, string, string]>> = {
  ENOSPC: ["room on the disk", "a full disk", "free some space and try again"],
  EDQUOT: ["room in the quota", "a full quota", "free some space and try again"],
  EACCES: ["permission to use it", "none", "change its permissions or choose another place"],
  EPERM: ["permission to use it", "none", "change its permissions or choose another place"],
  EROFS: ["a file system that can be written to", "one for reading alone", "choose another place"],
  ENOENT: ["it to be there", "nothing of that name", "check the path"],
  ENOTDIR: ["folders on the way to it", "a file among them", "check the path or choose another place"],
  EEXIST: ["a free name", "a file that has it", "choose another name, or remove it first"],
  EISDIR: ["a file", "a folder of that name", "choose another name"],
  EIO: ["a disk that works", "an error of the device", "check the disk"],
};

/** One line for an error of the file system, undefined for any other. Writing to an open file names no path: it is then `place`. */
export function diskProblem(cause: unknown, place?: string): string | undefined {
  if (!(cause instanceof Error) || !("code" in cause) || !Object.hasOwn(REFUSALS, String(cause.code))) return undefined;
  const [want, got, remedy] = REFUSALS[String(cause.code)]!;
  const path = "path" in cause && typeof cause.path === "string" ? cause.path : place;
  return path === undefined ? undefined : expected(path, want, `${got} (${String(cause.code)})`, remedy);
}

/** Runs `body`, which works on files at `place`; what the file system refuses comes out as one line of the named boundary. */
export async function onDisk<T>(
  wrap: new (message: string, options?: ErrorOptions) => FlywheelError,
  place: string,
  body: () => Promise<T>,
): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    const problem = diskProblem(cause, place);
    throw problem === undefined ? cause : new wrap(problem, { cause });
  }
}

/** `1 step`, `2 steps`. */
export function amount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** The one constructor of `Finite`. Strings and booleans are refused, never coerced. */
export function finite(value: unknown, where: string): Finite {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new RewardError(expected(where, "a finite number", `${typeof value} ${String(value)}`));
  }
  return value as Finite;
}

/** A scored verdict from plain numbers; refuses what is not finite. */
export function scored(score: number, explanation: string, components: Record<string, number> = {}): Verdict {
  const parts: Record<string, Finite> = {};
  for (const [name, value] of Object.entries(components)) parts[name] = finite(value, `reward component ${name}`);
  return { type: "scored", score: finite(score, "reward score"), components: parts, explanation };
}

/**
 * Text of models and data made safe for a terminal: control characters become visible symbols, so that no text can move the cursor,
 * recolour what follows or set the window's title.
 */
export function visible(text: string): string {
   
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    const code = character.charCodeAt(0);
    if (code === 0x09) return "\u2192";
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}
