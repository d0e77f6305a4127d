/**
 * What lint is for here: promises that nobody awaits, switches that forget a case, `any`, and size. Layout is not its business.
 * Size budgets that need exceptions by name live in test/architecture/budgets.json, which the budget test reads too.
 */
import { readFileSync } from "node:fs";
import tseslint from "typescript-eslint";

const budgets = JSON.parse(readFileSync(new URL("test/architecture/budgets.json", import.meta.url), "utf8"));
const longFiles = Object.entries(budgets.longFiles).filter(([, { lines }]) => lines > budgets.fileLinesHard);

const unsafe = ["argument", "assignment", "call", "member-access", "return"].map((name) => `@typescript-eslint/no-unsafe-${name}`);
const off = (names) => Object.fromEntries(names.map((name) => [name, "off"]));

export default tseslint.config(
  { ignores: ["**/node_modules/", "dist/", "runs/", "coverage/", ".cache/", ".venv/", "models/", "web/"] },
  {
    files: ["**/*.ts", "**/*.mts"],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-import-type-side-effects": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_", destructuredArrayIgnorePattern: "^_" }],
      // Indexing typed arrays needs `!`; async interfaces have synchronous implementations; numbers and booleans print well.
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      eqeqeq: "error",
      "max-lines": ["error", { max: 500 }],
    },
  },
  {
    files: ["src/**/*.ts"],
    rules: {
      "max-lines": ["error", { max: budgets.fileLinesHard }],
      "max-lines-per-function": ["error", { max: budgets.functionLines, skipBlankLines: true, skipComments: true }],
      "max-params": ["error", { max: 4 }],
      "no-console": "error",
      "no-restricted-syntax": ["error", { selector: "ExportDefaultDeclaration", message: "Export by name." }],
    },
  },
  { files: ["src/app/cli/**/*.ts"], rules: { "no-console": "off" } },
  { files: ["src/compute/tensor/**/*.ts"], rules: off(["@typescript-eslint/no-explicit-any", ...unsafe]) },
  ...longFiles.map(([file, { lines }]) => ({ files: [file], rules: { "max-lines": ["error", { max: lines }] } })),
  {
    // Tests and scripts read JSON as it comes.
    files: ["test/**/*.ts", "bench/**/*.ts", "examples/**/*.ts", "recipes/**/*.ts", "scripts/**/*.ts"],
    rules: off([...unsafe, "@typescript-eslint/unbound-method"]),
  },
);
