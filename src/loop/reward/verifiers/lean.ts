/**
 * Lean 4 proofs, checked by a Lean that the user has. The kernel's word is taken from one message: the axioms of the theorem, printed at
 * the line where this file's own command stands, under a name that the answer does not know. Exit codes and other output prove nothing.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { realpath } from "node:fs/promises";
import { z } from "zod";
import { findProgram, readableByAll } from "../../../compute/sandbox/machine.ts";
import { openSandbox } from "../../../compute/sandbox/open.ts";
import { limitsWith, type Sandbox, type SandboxLimits, type SandboxResult } from "../../../compute/sandbox/sandbox.ts";
import { scored } from "../../../errors.ts";
import { parseJsonStrict } from "../../../json.ts";
import type { JsonObject, Verdict } from "../../../types.ts";
import { proofFile, type ProofFile, proofIn } from "./lean/proof.ts";
import { infrastructure, shown, unscorable, type Verifier, verifierOf } from "./verifier.ts";

interface LeanOptions {
  /** The `lean` program; default the one on PATH. Its toolchain must be readable by any user. */
  readonly lean?: string;
  /** Folders of compiled modules (`.olean`), such as a project's `.lake/build/lib/lean` and those of its packages. */
  readonly libraries?: readonly string[];
  /** Axioms that a proof may use; default Lean's own three. */
  readonly axioms?: readonly string[];
  readonly limits?: Partial<SandboxLimits>;
  readonly sandbox?: Sandbox;
}

const GOLD = z.looseObject({ statement: z.string().min(1), header: z.string().default("") });
const STANDARD = ["propext", "Classical.choice", "Quot.sound"];
/** Compiled libraries are mapped into memory, so the address space is large; a control group limits what is really used. */
const LIMITS = { wallSeconds: 60, cpuSeconds: 60, memoryMegabytes: 8192, processes: 64, outputBytes: 1_000_000 };
const INSTALL =
  "no Lean toolchain, install with: apt-get install elan && elan default stable (https://lean-lang.org/install), then give `lean` its path";

/**
 * Scores 1 for a proof of the gold's statement (`{ statement, header? }`) that Lean accepts with no axiom but the allowed ones. Without a
 * toolchain: infrastructure, with how to install one.
 */
export function leanVerifier(options: LeanOptions = {}): Verifier {
  const limits = limitsWith({ ...LIMITS, ...options.limits });
  const allowed = new Set(options.axioms ?? STANDARD);
  let opened: Promise<Sandbox> | null = null;
  let found: Promise<Toolchain> | null = null;
  return verifierOf("lean", async ({ answer, gold, signal }): Promise<Verdict> => {
    const read = GOLD.safeParse(gold);
    if (!read.success) return unscorable("lean: the gold has no statement");
    const checkName = `Check${randomBytes(12).toString("hex")}`;
    // A statement that is none is so for every answer, also for one that holds no proof.
    if (proofFile(read.data, "", checkName) === null) return unscorable("lean: the statement is no named theorem");
    const part = proofIn(answer, read.data);
    if ("none" in part) return scored(0, part.none);
    const file = proofFile(read.data, part.proof, checkName)!;
    const toolchain = await (found ??= findToolchain(options));
    if ("missing" in toolchain) return infrastructure(`lean: ${toolchain.missing}`);
    const sandbox = options.sandbox ?? (await (opened ??= openSandbox()));
    const libraries = toolchain.libraries.map((_, index) => `/library-${index}`);
    const result = await sandbox.run({
      program: { command: ["/usr/bin/env", `LEAN_PATH=${libraries.join(":")}`, "/toolchain/bin/lean", "--json", "Check.lean"] },
      files: { "Check.lean": file.text },
      mounts: {
        "/toolchain": toolchain.prefix,
        ...Object.fromEntries(toolchain.libraries.map((path, index) => [libraries[index]!, path])),
      },
      limits,
      ...(signal === undefined ? {} : { signal }),
    });
    return judge(result, file, { allowed, limits });
  });
}

type Toolchain = { readonly prefix: string; readonly libraries: readonly string[] } | { readonly missing: string };

async function findToolchain({ lean, libraries = [] }: LeanOptions): Promise<Toolchain> {
  const program = await findProgram(lean ?? "lean");
  const printed = program === null ? null : await printPrefix(program);
  const prefix = printed === null ? null : await realpath(printed).catch(() => null);
  if (prefix === null) return { missing: INSTALL };
  const folders = await Promise.all(libraries.map((path) => realpath(path).catch(() => path)));
  for (const folder of [prefix, ...folders]) {
    if (!(await readableByAll(folder).catch(() => false))) {
      return { missing: `expected ${folder} to be readable by any user, because the checking user is nobody's; copy it to /opt` };
    }
  }
  return { prefix, libraries: folders };
}

function printPrefix(program: string): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(program, ["--print-prefix"], { timeout: 10_000 }, (error, stdout) =>
      resolve(error === null && stdout.trim() !== "" ? stdout.trim() : null),
    );
  });
}

interface LeanMessage {
  readonly severity: string;
  readonly line: number;
  readonly text: string;
}

function judge(
  result: SandboxResult,
  file: ProofFile,
  { allowed, limits }: { readonly allowed: ReadonlySet<string>; readonly limits: SandboxLimits },
): Verdict {
  if (result.killedBy !== null) return scored(0, `checking was ended by ${result.killedBy} (limit ${limits.wallSeconds} s)`);
  const messages = result.stdout
    .split("\n")
    .map(messageIn)
    .filter((message) => message !== null);
  const errors = messages.filter(({ severity }) => severity === "error");
  const inHeader = errors.find(({ line }) => line <= file.headerLines);
  if (inHeader !== undefined) return unscorable(`lean: the header is not accepted: ${shown(inHeader.text, 200)}`);
  if (messages.length === 0 && result.exit !== 0) return infrastructure(`lean: it did not run: ${shown(result.stderr, 200)}`);
  if (errors[0] !== undefined) return scored(0, `not accepted, line ${errors[0].line}: ${shown(errors[0].text, 200)}`);
  const unproved = messages.find(({ text }) => /declaration uses [`'‘]?sorry/.test(text));
  if (unproved !== undefined) return scored(0, "the proof has a gap (sorry)");
  const printed = messages
    .filter(({ severity, line }) => severity === "information" && line === file.axiomsLine)
    .map(({ text }) => axiomsIn(text, file.name));
  const axioms = printed.length === 1 ? printed[0] : undefined;
  if (axioms === undefined || axioms === null || result.exit !== 0) return scored(0, "the check did not reach its end");
  const foreign = axioms.filter((axiom) => !allowed.has(axiom));
  if (foreign.length > 0) return scored(0, `it rests on ${shown(foreign.join(", "), 200)}`);
  return scored(1, axioms.length === 0 ? "accepted, without axioms" : `accepted, with ${axioms.join(", ")}`);
}

/** The axioms that Lean names for the theorem, or null for any other text. */
function axiomsIn(text: string, name: string): readonly string[] | null {
  const flat = text.replace(/\s+/g, " ").trim();
  if (flat === `'${name}' does not depend on any axioms`) return [];
  const start = `'${name}' depends on axioms: [`;
  return flat.startsWith(start) && flat.endsWith("]")
    ? flat
        .slice(start.length, -1)
        .split(",")
        .map((axiom) => axiom.trim())
    : null;
}

function messageIn(line: string): LeanMessage | null {
  if (!line.startsWith("{")) return null;
  try {
    const { severity, pos, data } = parseJsonStrict(line) as JsonObject;
    const at = pos !== null && typeof pos === "object" ? (pos as JsonObject)["line"] : undefined;
    if (typeof severity !== "string" || typeof at !== "number" || typeof data !== "string") return null;
    return { severity, line: at, text: data };
  } catch {
    return null;
  }
}
