/**
 * Code by its tests. The answer's program runs in one isolation and the tests in another; the tests reach the program through a channel
 * that carries plain data, and only they report. Nothing that the program prints, returns as exit code, patches or writes is a verdict,
 * and it can read neither the tests nor the values they expect.
 */
import { randomBytes } from "node:crypto";
import { openSandbox } from "../../../compute/sandbox/open.ts";
import { limitsWith, type Sandbox, type SandboxLimits } from "../../../compute/sandbox/sandbox.ts";
import { Transpiler } from "../../../compute/sandbox/transpile.ts";
import { ConfigError, expected, scored } from "../../../errors.ts";
import type { Json, Reward, Task, Verdict } from "../../../types.ts";
import { answerCode, type AnswerCode, type CodeLanguage, ENDING } from "./code/answer.ts";
import { codeGold, type CodeCases, type CodeGold, type CodeTests, type TestFramework, testPaths } from "./code/gold.ts";
import { verdictOf } from "./code/report.ts";
import { shown, unscorable, type Verifier, type VerifierInput, verifierOf, verifierReward } from "./verifier.ts";

export interface CodeOptions {
  readonly language: CodeLanguage;
  /** The module that the tests import and that an answer of one block becomes; default "solution". */
  readonly module?: string;
  /** Further modules of the answer that tests may import, such as "shop.cart" or "shop/cart"; for projects. */
  readonly modules?: readonly string[];
  /** Default: texts are plain statements, unless they import pytest, unittest or node:test; files are for the language's framework. */
  readonly framework?: TestFramework;
  /** "all": 1 if every test passed, else 0. "fraction": the part that passed. Default "all". */
  readonly grade?: "all" | "fraction";
  /** For one whole grading; default 10 s, 512 MiB. */
  readonly limits?: Partial<SandboxLimits>;
  /** Default: one of its own, opened at the first grading. */
  readonly sandbox?: Sandbox;
}

/**
 * Scores an answer by the tests in the gold: `{ tests, setup?, check?, expected?, files? }` or `{ cases: [{ stdin, stdout }] }`. A gold
 * that holds no test is unscorable; no sandbox, or no pytest, is an infrastructure failure.
 */
export function codeVerifier(options: CodeOptions): Verifier {
  const { module = "solution", grade = "all" } = options;
  if (!Object.hasOwn(ENDING, options.language)) {
    throw new ConfigError(expected("code verifier: language", Object.keys(ENDING).join(", "), JSON.stringify(options.language)));
  }
  if (!/^[A-Za-z_]\w*$/.test(module) || module === "candidate") {
    throw new ConfigError(expected("code verifier: module", "a name other than candidate", JSON.stringify(module)));
  }
  const limits = limitsWith(options.limits);
  const transpiler = new Transpiler();
  let opened: Promise<Sandbox> | null = null;
  const sandbox = (): Promise<Sandbox> => (options.sandbox === undefined ? (opened ??= openSandbox()) : Promise.resolve(options.sandbox));
  return verifierOf("code", async ({ answer, gold, signal }: VerifierInput): Promise<Verdict> => {
    const wanted = codeGold(gold, options.language, options.framework);
    if (typeof wanted === "string") return unscorable(`code: ${wanted}`);
    const testFiles = wanted.kind === "tests" ? Object.keys(wanted.files) : [];
    const code = answerCode(answer, { language: options.language, module, testFiles });
    if ("none" in code) return scored(0, code.none);
    const problem = unusable(code);
    if (problem !== null) return scored(0, problem);
    const job: Job = { code, limits, grade, options: { ...options, module }, transpiler, sandbox: await sandbox(), signal };
    return wanted.kind === "cases" ? runCases(wanted, job) : runTests(wanted, job);
  });
}

/** `codeVerifier` as a reward; the gold is the task's data, or what `gold` takes from the task. */
export function codeReward(options: CodeOptions & { readonly gold?: (task: Task) => Json }): Reward {
  const { gold = (task: Task) => task.data, ...rest } = options;
  return verifierReward(codeVerifier(rest), { gold });
}

interface Job {
  readonly code: AnswerCode;
  readonly limits: SandboxLimits;
  readonly grade: "all" | "fraction";
  readonly options: CodeOptions & { readonly module: string };
  readonly transpiler: Transpiler;
  readonly sandbox: Sandbox;
  readonly signal: AbortSignal | undefined;
}

function unusable({ files }: AnswerCode): string | null {
  const entries = Object.entries(files);
  if (entries.length > 64) return `the answer has ${entries.length} files; at most 64 are run`;
  if (entries.some(([path]) => path.split("/").some((part) => part === "" || part === "." || part === "..")))
    return "the answer names a file outside its folder";
  const characters = entries.reduce((sum, [, text]) => sum + text.length, 0);
  return characters > 1_000_000 ? `the answer's code has ${characters} characters; at most 1000000 are run` : null;
}

async function runTests(gold: CodeTests & CodeGold, job: Job): Promise<Verdict> {
  const { code, limits, options, sandbox, signal } = job;
  const python = options.language === "python";
  const compile = (files: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> =>
    python ? Promise.resolve(files) : job.transpiler.compile(files, signal);
  const [candidateFiles, testFiles] = await Promise.all([compile({ ...code.files, ...gold.given }), compile(gold.files)]);
  const nonce = randomBytes(16).toString("hex");
  const run = testPaths(gold.files);
  const { framework, setup, check } = gold;
  const texts = options.language === "typescript" ? await compiledTexts(gold.texts, compile) : gold.texts;
  const examine = {
    nonce,
    framework,
    tests: texts,
    files: testFiles,
    run,
    setup,
    check,
    modules: [options.module, ...(options.modules ?? [])],
  };
  const side = python ? "python" : "javascript";
  const pair = await sandbox.examine({
    examiner: { guest: `${side}-examiner`, stdin: JSON.stringify(examine) },
    candidate: { guest: `${side}-candidate`, stdin: JSON.stringify({ files: candidateFiles }) },
    limits,
    ...(signal === undefined ? {} : { signal }),
  });
  return verdictOf(pair, { nonce, expected: gold.expected, grade: job.grade, limits, dropped: code.dropped });
}

async function compiledTexts(
  texts: readonly string[],
  compile: (files: Readonly<Record<string, string>>) => Promise<Readonly<Record<string, string>>>,
): Promise<readonly string[]> {
  return Object.values(await compile(Object.fromEntries(texts.map((text, index) => [`test-${index + 1}.ts`, text]))));
}

/** Each case is a run of its own; what it must print never enters the isolation. */
async function runCases(gold: CodeCases & CodeGold, { code, limits, grade, options, sandbox, signal }: Job): Promise<Verdict> {
  const { [`${options.module}.${ENDING[options.language]}`]: source, ...rest } = code.files;
  if (source === undefined) return scored(0, `the answer has no module ${options.module}`);
  const files = { ...rest, ...gold.given };
  const program = { language: options.language, source };
  const failures = await Promise.all(
    gold.cases.map(async ({ stdin, stdout }, index): Promise<string | null> => {
      const result = await sandbox.run({ program, files, stdin, limits, ...(signal === undefined ? {} : { signal }) });
      if (result.killedBy !== null) return `case ${index + 1}: ended by ${result.killedBy} after ${result.seconds.toFixed(1)} s`;
      if (result.exit !== 0)
        return `case ${index + 1}: exit code ${result.exit} (${shown(result.stderr.trim().split("\n").at(-1) ?? "", 160)})`;
      if (result.truncated.stdout) return `case ${index + 1}: too much output`;
      return sameOutput(result.stdout, stdout)
        ? null
        : `case ${index + 1}: expected ${shown(JSON.stringify(stdout))}, got ${shown(JSON.stringify(result.stdout))}`;
    }),
  );
  const failed = failures.filter((failure) => failure !== null);
  const total = Math.max(gold.cases.length, gold.expected ?? 0);
  const passed = gold.cases.length - failed.length;
  const told = [`${passed} of ${total} cases passed`, ...(failed[0] === undefined ? [] : [failed[0]])].join("; ");
  return scored(grade === "all" ? Number(passed === total) : passed / total, told);
}

/** Equal but for white space at the ends of lines and of the text. */
function sameOutput(got: string, want: string): boolean {
  const lines = (text: string): string =>
    text
      .trimEnd()
      .split("\n")
      .map((line) => line.trimEnd())
      .join("\n");
  return lines(got) === lines(want);
}
