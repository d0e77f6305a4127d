import { basename } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { countKind, functionLines } from "./rules.ts";
import { lines, list, load, parse, read } from "./source.ts";

interface Exceptions {
  readonly [path: string]: { readonly lines: number; readonly reason: string };
}
interface ManyImports {
  readonly [path: string]: { readonly imports: number; readonly reason: string };
}
interface Budgets extends Readonly<Record<string, number | Exceptions | ManyImports>> {
  readonly fileLines: number;
  readonly plugInLines: number;
  readonly functionLines: number;
  readonly imports: number;
  readonly lineWidth: number;
  readonly testFileLines: number;
  readonly agentsLines: number;
  readonly sourceLines: number;
  readonly longFiles: Exceptions;
  readonly longPlugIns: Exceptions;
  readonly manyImports: ManyImports;
}

const budgets = JSON.parse(read("test/architecture/budgets.json")) as Budgets;
const src = load(["src"]);
const tests = load(["test"]);
const rest = load(["scripts", "bench", "recipes", "examples"], [".ts", ".mjs"]);

function tooLong(paths: readonly string[], budget: number, exceptions: Exceptions = {}): string[] {
  return paths.flatMap((path) => {
    const have = lines(read(path)).length;
    const allowed = exceptions[path]?.lines ?? budget;
    return have > allowed ? [`${path}: expected at most ${allowed} lines, got ${have}`] : [];
  });
}

test("files", () => {
  expect(tooLong(src.map(({ path }) => path), budgets.fileLines, budgets.longFiles)).toEqual([]);
  expect(tooLong(tests.map(({ path }) => path), budgets.testFileLines)).toEqual([]);
  expect(tooLong(list(".", ["/AGENTS.md"]).filter((path) => path === "./AGENTS.md"), budgets.agentsLines)).toEqual([]);
});

test("an algorithm or an environment is one short file", () => {
  const plugIns = src.map(({ path }) => path).filter((path) => /^src\/(algo|env)\//.test(path));
  expect(tooLong(plugIns, budgets.plugInLines, { ...budgets.longFiles, ...budgets.longPlugIns })).toEqual([]);
});

test("exceptions exist, need their exception and give a reason", () => {
  const stale = (exceptions: Exceptions, budget: number): string[] =>
    Object.entries(exceptions)
      .filter(([path, { reason }]) => !src.some((file) => file.path === path && lines(file.text).length > budget) || reason === "")
      .map(([path]) => path);
  expect(stale(budgets.longFiles, budgets.fileLines)).toEqual([]);
  expect(stale(budgets.longPlugIns, budgets.plugInLines)).toEqual([]);
});

test("functions", () => {
  const long = src.flatMap(functionLines).filter(({ lines: have }) => have > budgets.functionLines);
  expect(long.map(({ name, lines: have }) => `${name}: expected at most ${budgets.functionLines} lines, got ${have}`)).toEqual([]);
});

test("imports in one file", () => {
  const counted = src
    .filter(({ path }) => basename(path) !== "index.ts" && !path.startsWith("src/train/"))
    .map(({ path, imports }) => ({ path, count: imports.filter(({ form }) => form === "declaration").length }));
  const allowed = (path: string): number => budgets.manyImports[path]?.imports ?? budgets.imports;
  expect(counted.filter(({ path, count }) => count > allowed(path))).toEqual([]);
  const stale = Object.entries(budgets.manyImports).filter(
    ([path, { reason }]) => reason === "" || !counted.some((file) => file.path === path && file.count > budgets.imports),
  );
  expect(stale).toEqual([]);
});

test("no `any` outside compute/tensor", () => {
  const counted = src
    .filter(({ path }) => !path.startsWith("src/compute/tensor/"))
    .map((file) => ({ path: file.path, any: countKind(file, (node) => node.kind === ts.SyntaxKind.AnyKeyword) }));
  expect(counted.filter(({ any }) => any > 0)).toEqual([]);
});

test("line width", () => {
  const wide = [...src, ...tests, ...rest].flatMap(({ path, text }) =>
    lines(text).flatMap((line, index) => (line.length > budgets.lineWidth ? [`${path}:${index + 1}: ${line.length} columns`] : [])),
  );
  expect(wide).toEqual([]);
});

test("nothing in src/ is left for later", () => {
  const later = /\b(?:TODO|FIXME|XXX|HACK|[Ss]tub|STUB|[Pp]laceholder|PLACEHOLDER)\b/;
  const found = src.flatMap(({ path, text }) =>
    lines(text).flatMap((line, index) => (later.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});

test("source total", () => {
  const total = src.reduce((sum, { text }) => sum + lines(text).length, 0);
  const casts = src.reduce((sum, file) => sum + countKind(file, isCast), 0);
  const perThousand = ((casts / total) * 1000).toFixed(1);
  console.log(`src: ${src.length} files, ${total} of ${budgets.sourceLines} lines, ${casts} casts (${perThousand} per 1,000 lines)`);
  expect(total).toBeLessThanOrEqual(budgets.sourceLines);
});

function isCast(node: ts.Node): boolean {
  return ts.isAsExpression(node) && !ts.isConstTypeReference(node.type);
}

test("function lines count code, not comments or blank lines", () => {
  const inner = ["  const inner = () => {", "    return `", "", "`;", "  };"];
  const outer = ["function outer() {", "  // a comment", "", "  /** another */", ...inner, "}", ""];
  expect(functionLines(parse("src/x.ts", outer.join("\n")))).toEqual([
    { name: "src/x.ts:1 outer", lines: 7 },
    { name: "src/x.ts:5 (arrow)", lines: 5 },
  ]);
});
