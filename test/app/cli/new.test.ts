import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { runFlywheel } from "../../fakes/cli.ts";

// Inside the repository, so that vitest and zod are found from there.
mkdirSync(".cache", { recursive: true });
const folder = mkdtempSync(join(process.cwd(), ".cache", "new-env-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("what is written passes its own test, and can be played", { timeout: 120_000 }, async () => {
  const { code, out } = await runFlywheel(["new", "env", "corner-shop", "--folder", folder]);
  expect(code).toBe(0);
  expect(out).toContain(`wrote ${join(folder, "corner-shop.ts")}\nwrote ${join(folder, "corner-shop.test.ts")}\n`);
  const config = `export default { resolve: { alias: { flywheel: ${JSON.stringify(join(process.cwd(), "src", "index.ts"))} } } };\n`;
  writeFileSync(join(folder, "vitest.config.mjs"), config);
  const run = spawnSync("npx", ["vitest", "run", "--root", folder], { encoding: "utf8" });
  expect([run.status, run.stdout]).toEqual([0, expect.stringContaining("2 passed")]);
});

test("the source is typed, commented and has no line that is too long", () => {
  const source = readFileSync(join(folder, "corner-shop.ts"), "utf8");
  expect(source).toContain("export function cornerShop(): Env {");
  expect(source.split("\n").filter((line) => /^\s*(?:\/\/|\/\*\*)/.test(line)).length).toBeGreaterThan(8);
  expect(Math.max(...source.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(140);
});

test("nothing is overwritten, and a name that is none is refused", async () => {
  const again = await runFlywheel(["new", "env", "corner-shop", "--folder", folder]);
  const refused = /new env corner-shop: expected no file .*corner-shop.ts, got one that is there/;
  expect([again.code, again.err]).toEqual([1, expect.stringMatching(refused)]);
  for (const name of ["Shop", "a/b", "../x", "1st", "a-"]) {
    const { code, err } = await runFlywheel(["new", "env", name, "--folder", folder]);
    expect([name, code, err.includes("expected a name of lower-case letters")]).toEqual([name, 1, true]);
  }
  expect((await runFlywheel(["new", "algorithm", "x"])).code).toBe(2);
});
