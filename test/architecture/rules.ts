/** The architecture's rules as functions from parsed files to complaints; an empty list means the rule holds. */
import ts from "typescript";
import { visit } from "./source.ts";
import type { SourceFile } from "./source.ts";

/**
 * The order of imports, lowest first; paths inside src/. A unit imports itself and lower layers by value, never a sibling.
 * The files of the first layer are one unit.
 */
export const layers: readonly (readonly string[])[] = [
  ["types.ts", "types/", "tool-use.ts", "errors.ts", "random.ts", "json.ts", "config-fields.ts", "data-file.ts"],
  ["compute/tensor/"],
  ["compute/models/"],
  ["compute/text/"],
  ["compute/policy/", "compute/sandbox/", "compute/browser/"],
  ["prompt", "rollout", "reward", "advantage", "batch", "loss", "update", "weights"].map((stage) => `loop/${stage}/`),
  ["algo/", "env/"],
  ["train/"],
  ["app/server/"],
  ["app/cli/"],
  ["index.ts"],
];

interface Unit {
  readonly layer: number;
  readonly name: string;
}

function unitOf(path: string): Unit | null {
  const inside = path.replace(/^src\//, "");
  for (const [layer, units] of layers.entries()) {
    const name = units.find((unit) => inside === unit || (unit.endsWith("/") && inside.startsWith(unit)));
    if (name !== undefined) return { layer, name: layer === 0 ? "the base files" : name };
  }
  return null;
}

export function importOrder(files: readonly SourceFile[]): string[] {
  const complaints: string[] = [];
  for (const file of files) {
    const from = unitOf(file.path);
    if (from === null) complaints.push(`${file.path}: not in the layer list of test/architecture/rules.ts`);
    for (const { target, kind } of file.imports) {
      if (from === null || target === null || kind === "type") continue;
      const to = unitOf(target);
      if (to === null) complaints.push(`${file.path}: imports ${target}, which is in no layer`);
      else if (to.layer > from.layer) complaints.push(`${file.path}: imports ${target}, a higher layer (${to.name})`);
      else if (to.layer === from.layer && to.name !== from.name) complaints.push(`${file.path}: imports ${target}, a sibling (${to.name})`);
    }
  }
  return complaints;
}

/** Cycles among value imports, each as "a -> b -> a". */
export function valueCycles(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const trail: string[] = [];
  const cycles: string[] = [];
  const walk = (path: string): void => {
    const at = trail.indexOf(path);
    if (at >= 0) cycles.push([...trail.slice(at), path].join(" -> "));
    if (at >= 0 || done.has(path)) return;
    trail.push(path);
    for (const { target, kind } of byPath.get(path)?.imports ?? []) {
      if (kind === "value" && target !== null) walk(target);
    }
    trail.pop();
    done.add(path);
  };
  for (const path of byPath.keys()) walk(path);
  return cycles;
}

/** Exports of src/ that no other file takes and that no entry point of the package offers. */
export function unusedExports(files: readonly SourceFile[], entries: readonly string[]): string[] {
  const used = new Map<string, Set<string>>();
  for (const file of files) {
    for (const { target, names } of file.imports) {
      if (target === null) continue;
      const set = used.get(target) ?? new Set();
      for (const name of names) set.add(name);
      used.set(target, set);
    }
  }
  return files
    .filter(({ path }) => path.startsWith("src/") && !entries.includes(path) && used.get(path)?.has("*") !== true)
    .flatMap(({ path, exports }) => exports.map((name) => ({ path, name })))
    .filter(({ path, name }) => used.get(path)?.has(name) !== true)
    .map(({ path, name }) => `${path}: ${name} is used nowhere`);
}

/** Relative imports name the file with its ending; src/ has TypeScript only. */
export function importEndings(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, imports }) => {
    const endings = path.startsWith("src/") ? [".ts"] : [".ts", ".mjs"];
    return imports
      .filter(({ specifier, target }) => target !== null && !endings.some((ending) => specifier.endsWith(ending)))
      .map(({ specifier }) => `${path}: import "${specifier}" ends in none of ${endings.join(", ")}`);
  });
}

/** Lines of code (neither blank nor comment alone) of each function that has a body. */
export function functionLines(file: SourceFile): { readonly name: string; readonly lines: number }[] {
  const code = codeLines(file.ast);
  const lineOf = (position: number): number => file.ast.getLineAndCharacterOfPosition(position).line;
  const found: { name: string; lines: number }[] = [];
  visit(file.ast, (node) => {
    if (!ts.isFunctionLike(node) || !("body" in node) || node.body === undefined) return;
    const [first, last] = [lineOf(node.getStart()), lineOf(node.getEnd())];
    let count = 0;
    for (let line = first; line <= last; line++) if (code.has(line)) count++;
    found.push({ name: `${file.path}:${first + 1} ${node.name?.getText() ?? "(arrow)"}`, lines: count });
  });
  return found;
}

/** Line numbers that hold at least a part of one token, closing brackets included. */
function codeLines(ast: ts.SourceFile): Set<number> {
  const found = new Set<number>();
  const walk = (node: ts.Node): void => {
    if (ts.isJSDoc(node) || node.kind === ts.SyntaxKind.EndOfFileToken) return;
    const children = node.getChildren(ast);
    if (children.length > 0) return children.forEach(walk);
    const first = ast.getLineAndCharacterOfPosition(node.getStart(ast)).line;
    const last = ast.getLineAndCharacterOfPosition(node.getEnd()).line;
    if (node.getEnd() > node.getStart(ast)) for (let line = first; line <= last; line++) found.add(line);
  };
  walk(ast);
  return found;
}

export function countKind(file: SourceFile, wanted: (node: ts.Node) => boolean): number {
  let count = 0;
  visit(file.ast, (node) => {
    if (wanted(node)) count++;
  });
  return count;
}
