/** What the code verifier holds an answer against, as it stands in a task's data. */
import { z } from "zod";
import type { Json } from "../../../../types.ts";
import { type CodeLanguage, ENDING } from "./answer.ts";

const fileMap = z.record(z.string(), z.string());

const GOLD = z.looseObject({
  /** One text, a list of texts, or files by path. */
  tests: z.union([z.string(), z.array(z.string()), fileMap]).optional(),
  /** Statements before each plain test. */
  setup: z.string().optional(),
  /** A name of the answer that the tests' own `check` is called with. Python. */
  check: z.string().optional(),
  /** How many tests there must be; fewer is not a pass. */
  expected: z.number().int().positive().optional(),
  /** Instead of tests: what the program must print for what it reads. */
  cases: z.array(z.strictObject({ stdin: z.string().default(""), stdout: z.string() })).optional(),
  /** Files that the answer's code finds beside it; they replace files of the answer. */
  files: fileMap.optional(),
});

export type TestFramework = "plain" | "pytest" | "node:test";

export interface CodeTests {
  readonly kind: "tests";
  readonly framework: TestFramework;
  readonly texts: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly setup: string | null;
  readonly check: string | null;
}

export interface CodeCases {
  readonly kind: "cases";
  readonly cases: readonly { readonly stdin: string; readonly stdout: string }[];
}

export type CodeGold = (CodeTests | CodeCases) & { readonly expected: number | null; readonly given: Readonly<Record<string, string>> };

/** The gold in one form, or why it grades nothing. */
export function codeGold(gold: Json, language: CodeLanguage, framework: TestFramework | undefined): CodeGold | string {
  const read = GOLD.safeParse(gold);
  if (!read.success) {
    const issue = read.error.issues[0];
    return `the gold is no test: ${issue === undefined ? "" : `${issue.path.join(".") || "it"}: ${issue.message}`}`;
  }
  const { tests, setup, check, expected, cases, files } = read.data;
  const common = { expected: expected ?? null, given: files ?? {} };
  if ((tests === undefined) === (cases === undefined)) return "the gold needs either tests or cases";
  if (cases !== undefined) {
    if (!cases.some(({ stdout }) => stdout.trim() !== ""))
      return "the gold has no case with an output, so that nothing would be shown by passing";
    return { kind: "cases", cases, ...common };
  }
  const texts = typeof tests === "string" ? [tests] : Array.isArray(tests) ? tests : [];
  const named = typeof tests === "object" && !Array.isArray(tests) ? tests : {};
  if (texts.every((text) => text.trim() === "") && Object.keys(named).length === 0) return "the gold has no test";
  const wanted = framework ?? (Object.keys(named).length > 0 ? ownFramework(language) : frameworkOf(texts, language));
  if (wanted !== "plain" && wanted !== ownFramework(language)) return `the framework ${wanted} does not run ${language}`;
  if (wanted === "plain" && Object.keys(named).length > 0) return "plain tests are texts, not files";
  if (wanted === "node:test" && texts.length === 0 && testPaths(named).length === 0)
    return "no file of the tests is a .js or .ts named test or spec";
  const asFiles = wanted === "plain" ? {} : { ...named, ...Object.fromEntries(texts.map((text, i) => [testName(i, language), text])) };
  return {
    kind: "tests",
    framework: wanted,
    texts: wanted === "plain" ? texts : [],
    files: asFiles,
    setup: setup ?? null,
    check: check ?? null,
    ...common,
  };
}

function ownFramework(language: CodeLanguage): TestFramework {
  return language === "python" ? "pytest" : "node:test";
}

/** A text that imports pytest or node:test is a file for it. The text is the task author's. */
function frameworkOf(texts: readonly string[], language: CodeLanguage): TestFramework {
  const imports = language === "python" ? /^\s*(?:import|from)\s+(?:pytest|unittest)\b/m : /["']node:test["']/;
  return texts.some((text) => imports.test(text)) ? ownFramework(language) : "plain";
}

/** The files that are run; the others are for them to import. */
export function testPaths(files: Readonly<Record<string, string>>): readonly string[] {
  return Object.keys(files).filter((path) => /\.[cm]?[jt]sx?$/.test(path) && /test|spec/i.test(path));
}

function testName(index: number, language: CodeLanguage): string {
  return language === "python" ? `test_${index + 1}.py` : `test-${index + 1}.test.${ENDING[language]}`;
}
