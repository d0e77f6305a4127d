/** Source folders as plain JavaScript in a temporary folder, for tests that must run a part in a process that they kill. */
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";

/** Transpiles the given files and folders below src/; returns the folder that stands for src/. */
export function transpiled(paths: readonly string[]): string {
  const root = mkdtempSync(join(tmpdir(), "flywheel-test-"));
  symlinkSync(resolve("node_modules"), join(root, "node_modules"));
  writeFileSync(join(root, "package.json"), '{"type":"module"}');
  const files = paths.flatMap((path) => {
    if (path.endsWith(".ts")) return [path];
    return readdirSync(join("src", path), { recursive: true, encoding: "utf8" })
      .map((name) => join(path, name))
      .filter((name) => name.endsWith(".ts"));
  });
  for (const file of files) {
    const compilerOptions = {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2022,
      rewriteRelativeImportExtensions: true,
      verbatimModuleSyntax: true,
    };
    const { outputText } = ts.transpileModule(readFileSync(join("src", file), "utf8"), { compilerOptions });
    const target = join(root, "src", file.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, outputText);
  }
  return join(root, "src");
}
