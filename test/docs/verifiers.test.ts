/** The functions that the pages of the verifiers show are those that the package offers. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as flywheel from "../../src/index.ts";

const pages = ["docs/verifiers.md", ...readdirSync("docs/verifiers").map((name) => join("docs/verifiers", name))];

/** Functions that are called, and not as methods, in blocks of TypeScript and in spans that begin with a call. */
function called(page: string): string[] {
  const text = readFileSync(page, "utf8");
  const blocks = [...text.matchAll(/```ts\n([^]*?)```/g)].map(([, block]) => block!.replace(/\/\/.*|"[^"]*"|interface [^]*?\n\}/g, ""));
  const spans = [...text.replace(/```[^]*?```/g, "").matchAll(/`(\w+\([^`]*\))`/g)].map(([, span]) => span!);
  return [...blocks, ...spans].flatMap((code) => [...code.matchAll(/(?<![.\w])([a-z]\w*)\(/g)].map(([, name]) => name!));
}

test.each(pages)("%s", (page) => {
  const offered: Readonly<Record<string, unknown>> = { ...flywheel, ...flywheel.verifiers };
  // What the page's own text introduces.
  const others = ["verify", "complete", "run"];
  const names = called(page).filter((name) => !others.includes(name));
  expect(names.filter((name) => typeof offered[name] !== "function")).toEqual([]);
});
