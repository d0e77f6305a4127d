import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { transpiled } from "../../../fakes/transpiled.ts";

test("a process ends when its gradings are done: idle and ended workers do not hold it", { timeout: 120_000 }, () => {
  const source = transpiled(["errors.ts", "random.ts", "json.ts", "loop/reward"]);
  const module = (name: string): string => JSON.stringify(pathToFileURL(join(source, "loop/reward/verifiers", `${name}.js`)).href);
  const program = `
    const [{ math }, { molecule }] = [await import(${module("math")}), await import(${module("molecule")})];
    const verdicts = [
      await math().verify({ gold: "\\\\sqrt2/2", answer: "\\\\sin 45^\\\\circ" }),
      await math({ seconds: 0.5 }).verify({ gold: "1/3", answer: "9^{9^{9^9}}" }),
      await molecule().verify({ gold: "CCO", answer: "OCC" }),
    ];
    console.log(JSON.stringify(verdicts.map((verdict) => verdict.score ?? verdict.type)));`;
  try {
    const out = execFileSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 60_000, encoding: "utf8" });
    expect(JSON.parse(out)).toEqual([1, "unscorable", 1]);
  } finally {
    rmSync(dirname(source), { recursive: true, force: true });
  }
});
