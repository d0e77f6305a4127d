import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "../../../../src/compute/sandbox/open.ts";
import type { Sandbox } from "../../../../src/compute/sandbox/sandbox.ts";
import { codeVerifier } from "../../../../src/loop/reward/verifiers/code.ts";
import { leanVerifier } from "../../../../src/loop/reward/verifiers/lean.ts";
import type { Verifier } from "../../../../src/loop/reward/verifiers/verifier.ts";
import type { Json } from "../../../../src/types.ts";
import { hostileTexts } from "../../../fakes/hostile/texts.ts";

let sandbox: Sandbox;
const folder = mkdtempSync(join(tmpdir(), "flywheel-lean-"));
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 6 });
}, 60_000);
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true });
});

/** Verdicts of all texts, counted by kind; a score other than 0 by its text. */
async function outcomes(verifier: Verifier, gold: Json): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const texts = hostileTexts();
  for (let at = 0; at < texts.length; at += 50) {
    const verdicts = await Promise.all(
      texts.slice(at, at + 50).map(async (answer) => [answer, await verifier.verify({ answer, gold })] as const),
    );
    for (const [answer, verdict] of verdicts) {
      const kind = verdict.type === "scored" ? (verdict.score === 0 ? "0" : `rewarded: ${answer}`) : `${verdict.type}: ${verdict.reason}`;
      counts[kind] = (counts[kind] ?? 0) + 1;
    }
  }
  return counts;
}

test("code: 500 texts, each scored 0", { timeout: 400_000 }, async () => {
  const verifier = codeVerifier({ language: "python", sandbox, limits: { wallSeconds: 4, cpuSeconds: 1 } });
  expect(await outcomes(verifier, { tests: "assert add(1, 2) == 3\nassert add(5, 5) == 10" })).toEqual({ 0: 500 });
});

test("lean: 500 texts, each scored 0, though this Lean accepts only one proof", { timeout: 400_000 }, async () => {
  const lean = join(folder, "bin", "lean");
  mkdirSync(join(folder, "bin"));
  // Refuses every file but one with the right proof in it, as Lean would.
  writeFileSync(
    lean,
    `#!/usr/bin/python3
import json, sys
if sys.argv[1] == "--print-prefix": print(__file__.rsplit("/", 2)[0]); sys.exit(0)
lines = open(sys.argv[-1], encoding="utf-8", errors="replace").read().split("\\n")
if not any("omega" in l for l in lines):
    print(json.dumps({"severity": "error", "pos": {"line": 2, "column": 0}, "data": "unsolved goals"})); sys.exit(1)
`,
  );
  for (const path of [folder, join(folder, "bin"), lean]) chmodSync(path, 0o755);
  expect(await outcomes(leanVerifier({ lean, sandbox }), { statement: "theorem t (n : Nat) : n + 0 = n" })).toEqual({ 0: 500 });
});
