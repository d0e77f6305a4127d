import { expect, test } from "vitest";
import { importEndings, importOrder, unusedExports, valueCycles } from "./rules.ts";
import { load, parse, read } from "./source.ts";

const src = load(["src"]);
const others = load(["test", "scripts", "bench", "recipes", "examples"], [".ts", ".mjs"]);
const all = [...src, ...others];

/** What the package offers by name: `./dist/x.js` in its exports is `src/x.ts`. */
function entries(): string[] {
  const manifest = JSON.parse(read("package.json")) as { exports: Record<string, string | { default: string }> };
  return Object.values(manifest.exports)
    .map((entry) => (typeof entry === "string" ? entry : entry.default))
    .filter((path) => path.startsWith("./dist/"))
    .map((path) => path.replace("./dist/", "src/").replace(/\.js$/, ".ts"));
}

test("imports point one way", () => {
  expect(importOrder(src)).toEqual([]);
});

test("value imports have no cycle", () => {
  expect(valueCycles(src)).toEqual([]);
});

test("every export is used", () => {
  expect(unusedExports(all, entries())).toEqual([]);
});

test("relative imports name the file with its ending", () => {
  expect(importEndings(all)).toEqual([]);
});

test("the order rule sees upward and sibling imports, and exempts types", () => {
  const files = [
    parse("src/loop/loss/a.ts", 'import { x } from "../batch/b.ts";\nimport type { Y } from "../../train/y.ts";'),
    parse("src/compute/tensor/c.ts", 'export { z } from "../../algo/z.ts";\nimport { finite } from "../../errors.ts";'),
    parse("src/errors.ts", 'import { rng } from "./random.ts";\nconst late = import("./compute/tensor/c.ts");'),
    parse("src/stray.ts", ""),
  ];
  expect(importOrder(files)).toEqual([
    "src/loop/loss/a.ts: imports src/loop/batch/b.ts, a sibling (loop/batch/)",
    "src/compute/tensor/c.ts: imports src/algo/z.ts, a higher layer (algo/)",
    "src/errors.ts: imports src/compute/tensor/c.ts, a higher layer (compute/tensor/)",
    "src/stray.ts: not in the layer list of test/architecture/rules.ts",
  ]);
});

test("the cycle rule follows value imports only", () => {
  const a = parse("src/a.ts", 'import { b } from "./b.ts";');
  const c = parse("src/c.ts", 'import type { A } from "./a.ts";');
  expect(valueCycles([a, parse("src/b.ts", 'import { c } from "./c.ts";'), c])).toEqual([]);
  expect(valueCycles([a, parse("src/b.ts", 'import { a } from "./a.ts";')])).toEqual(["src/a.ts -> src/b.ts -> src/a.ts"]);
});

test("the unused-export rule sees named, starred, dynamic and type uses", () => {
  const files = [
    parse("src/a.ts", "export const [one, { two }] = f();\nexport interface Three {}\nexport function four() {}\nexport type Five = 1;"),
    parse("src/b.ts", "export const all = 1;"),
    parse("src/c.ts", "export const lazy = 1;"),
    parse("src/index.ts", 'export { one } from "./a.ts";\nexport * from "./b.ts";\nexport const api = import("./c.ts");'),
    parse("test/a.test.ts", 'import { four as renamed } from "../src/a.ts";\ntype T = import("../src/a.ts").Three;'),
  ];
  expect(unusedExports(files, ["src/index.ts"])).toEqual(["src/a.ts: two is used nowhere", "src/a.ts: Five is used nowhere"]);
});
