/** Programs that some environments and graders use. Nothing here is required to train. */
import { execFile } from "node:child_process";
import { findChromium } from "../../../compute/browser/chromium.ts";

export interface Tools {
  /** Versions; null where the program is not there. */
  readonly python: string | null;
  readonly sympy: string | null;
  readonly lean: string | null;
  readonly pytest: string | null;
  readonly chromium: string | null;
}

export async function findTools(): Promise<Tools> {
  const program = findChromium();
  const [python, sympy, lean, pytest, chromium] = await Promise.all([
    output("python3", "--version"),
    output("python3", "-c", "import sympy; print(sympy.__version__)"),
    output("lean", "--version"),
    // The Python that the sandbox runs.
    output("/usr/bin/python3", "-I", "-c", "import pytest; print(pytest.__version__)"),
    program === null ? null : output(program, "--version"),
  ]);
  const version = (text: string | null): string | null => (text === null ? null : (/\d+(\.\d+)+/.exec(text)?.[0] ?? text.slice(0, 40)));
  return {
    python: version(python),
    sympy: version(sympy),
    lean: version(lean),
    pytest: version(pytest),
    chromium: version(chromium),
  };
}

/** What a program prints, or null if it is not there, fails or takes longer than 5 s. */
function output(command: string, ...args: readonly string[]): Promise<string | null> {
  return new Promise((resolve) => {
    const options = { timeout: 5000, windowsHide: true };
    const child = execFile(command, args, options, (error, stdout) => resolve(error === null ? stdout.trim() : null));
    child.stdin?.end();
  });
}

export type HubAnswer =
  | { readonly reachable: true; readonly milliseconds: number }
  | { readonly reachable: false; readonly reason: string };

/** Milliseconds until the hub answers, or why it does not within 2 s. */
export async function askHub(endpoint: string): Promise<HubAnswer> {
  const started = performance.now();
  try {
    const response = await fetch(endpoint, { method: "HEAD", redirect: "manual", signal: AbortSignal.timeout(2000) });
    if (response.status >= 500) return { reachable: false, reason: `HTTP ${response.status}` };
    return { reachable: true, milliseconds: Math.round(performance.now() - started) };
  } catch (error) {
    const { name, message, cause } = error as Error;
    if (name === "TimeoutError") return { reachable: false, reason: "no answer within 2 s" };
    return { reachable: false, reason: cause instanceof Error ? cause.message || String((cause as NodeJS.ErrnoException).code) : message };
  }
}
