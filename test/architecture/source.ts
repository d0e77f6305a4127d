/** Reads the repository's TypeScript as text and syntax, for the architecture tests. It does not resolve types. */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

export interface Import {
  /** As written. */
  readonly specifier: string;
  /** Path from the root of the repository, or null for a package. */
  readonly target: string | null;
  readonly kind: "type" | "value";
  /** "declaration" is an import statement; "reexport" is `export ... from`; "expression" is `import()`, as value or as type. */
  readonly form: "declaration" | "reexport" | "expression";
  /** Names taken from the target; "*" for all of them. */
  readonly names: readonly string[];
}

export interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly ast: ts.SourceFile;
  readonly imports: readonly Import[];
  readonly exports: readonly string[];
}

/** Paths from the root, with "/", of files under `folder` that end in one of `endings`; none if the folder does not exist. */
export function list(folder: string, endings: readonly string[]): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.name !== "node_modules")
    .flatMap((entry) => (entry.isDirectory() ? list(`${folder}/${entry.name}`, endings) : [`${folder}/${entry.name}`]))
    .filter((path) => endings.some((ending) => path.endsWith(ending)));
}

export function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

export function lines(text: string): string[] {
  return text.replace(/\n$/, "").split("\n");
}

/** Parses one file; `path` decides what its relative imports point to. */
export function parse(path: string, text: string): SourceFile {
  const ast = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  const imports: Import[] = [];
  const exports: string[] = [];
  for (const statement of ast.statements) {
    const found = declaredImport(statement, path);
    if (found !== null) imports.push(found);
    exports.push(...exportedNames(statement));
  }
  visit(ast, (node) => {
    const found = importExpression(node, path);
    if (found !== null) imports.push(found);
  });
  return { path, text, ast, imports, exports };
}

export function load(folders: readonly string[], endings: readonly string[] = [".ts"]): SourceFile[] {
  return folders.flatMap((folder) => list(folder, endings)).map((path) => parse(path, read(path)));
}

export function visit(node: ts.Node, see: (node: ts.Node) => void): void {
  see(node);
  ts.forEachChild(node, (child) => visit(child, see));
}

function target(specifier: string, from: string): string | null {
  return specifier.startsWith(".") ? posix.normalize(posix.join(posix.dirname(from), specifier)) : null;
}

/**
 * The import that a statement makes. `import { type A }` leaves an empty import behind under verbatimModuleSyntax, so it counts
 * as a value import; `import type { A }` does not.
 */
function declaredImport(statement: ts.Statement, from: string): Import | null {
  const isImport = ts.isImportDeclaration(statement);
  if (!isImport && !ts.isExportDeclaration(statement)) return null;
  if (statement.moduleSpecifier === undefined || !ts.isStringLiteral(statement.moduleSpecifier)) return null;
  const specifier = statement.moduleSpecifier.text;
  const typeOnly = isImport ? statement.importClause?.isTypeOnly === true : statement.isTypeOnly;
  const bindings = isImport ? statement.importClause?.namedBindings : statement.exportClause;
  const names = bindings !== undefined && (ts.isNamedImports(bindings) || ts.isNamedExports(bindings))
    ? bindings.elements.map((element) => (element.propertyName ?? element.name).text)
    : isImport && bindings === undefined ? [] : ["*"];
  const form = isImport ? "declaration" : "reexport";
  return { specifier, target: target(specifier, from), kind: typeOnly ? "type" : "value", form, names };
}

function importExpression(node: ts.Node, from: string): Import | null {
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument) && ts.isStringLiteral(node.argument.literal)) {
    const specifier = node.argument.literal.text;
    const names = node.qualifier === undefined ? ["*"] : [node.qualifier.getText().split(".")[0]!];
    return { specifier, target: target(specifier, from), kind: "type", form: "expression", names };
  }
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.ImportKeyword) return null;
  const argument = node.arguments[0];
  if (argument === undefined || !ts.isStringLiteral(argument)) return null;
  return { specifier: argument.text, target: target(argument.text, from), kind: "value", form: "expression", names: ["*"] };
}

function exportedNames(statement: ts.Statement): string[] {
  if (ts.isExportDeclaration(statement)) {
    const clause = statement.exportClause;
    if (clause === undefined) return [];
    return ts.isNamedExports(clause) ? clause.elements.map((element) => element.name.text) : [clause.name.text];
  }
  const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined;
  if (modifiers?.some((modifier) => modifier.kind === ts.SyntaxKind.ExportKeyword) !== true) return [];
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.flatMap(({ name }) => boundNames(name));
  const named = statement as ts.Statement & { readonly name?: ts.Identifier };
  return named.name === undefined ? [] : [named.name.text];
}

function boundNames(name: ts.BindingName): string[] {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) => (ts.isOmittedExpression(element) ? [] : boundNames(element.name)));
}
