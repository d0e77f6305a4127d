import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as algo from "../src/algo/index.ts";
import * as env from "../src/env/kit.ts";
import * as flywheel from "../src/index.ts";

const page = readFileSync("docs/api.md", "utf8");

/** Names in the first column of the page's table. */
function documented(): string[] {
  const cells = page.split("\n").flatMap((line) => /^\| (`.*?`) \|/.exec(line)?.slice(1) ?? []);
  return cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map((match) => match[1]!));
}

test("the page lists exactly the names of the package", () => {
  expect(documented().sort()).toEqual(Object.keys(flywheel).sort());
});

test("subpaths offer the same things under the same names", () => {
  const all: Readonly<Record<string, unknown>> = flywheel;
  for (const part of [algo, env]) for (const [name, value] of Object.entries(part)) expect(all[name]).toBe(value);
});
