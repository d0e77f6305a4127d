import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findProgram } from "../../../../src/compute/sandbox/machine.ts";
import { openSandbox } from "../../../../src/compute/sandbox/open.ts";
import type { Sandbox } from "../../../../src/compute/sandbox/sandbox.ts";
import { leanVerifier } from "../../../../src/loop/reward/verifiers/lean.ts";

/**
 * A program that speaks as `lean --json` does, for what surrounds the kernel: it knows four proofs by their text. Whether Lean itself
 * accepts a proof is tested below, on machines that have one.
 */
const speaksLikeLean = `#!/usr/bin/python3
import json, re, sys
if sys.argv[1] == "--print-prefix":
    print(__file__.rsplit("/", 2)[0]); sys.exit(0)
lines = open(sys.argv[-1]).read().split("\\n")
text = "\\n".join(lines)
def say(severity, line, data):
    print(json.dumps({"severity": severity, "pos": {"line": line, "column": 0}, "endPos": None, "fileName": "Check.lean", "data": data}))
at = next(i for i, l in enumerate(lines) if l.startswith("theorem")) + 1
if "unknown_module" in text: say("error", 1, "unknown module prefix 'unknown_module'"); sys.exit(1)
name = next((l[len("#print axioms "):] for l in lines if l.startswith("#print axioms ")), None)
last = next((i for i, l in enumerate(lines) if l.startswith("#print axioms ")), -1) + 1
if "forge" in text:
    say("information", at, "'%s' does not depend on any axioms" % name); sys.exit(0)
if "wrong" in text: say("error", at, "type mismatch"); sys.exit(1)
if "hole_below" in text: say("warning", at, "declaration uses 'sorry'")
if "by_choice" in text: say("information", last, "'%s' depends on axioms: [propext,\\n Classical.choice]" % name)
elif "by_axiom" in text: say("information", last, "'%s' depends on axioms: [cheat]" % name)
elif "twice" in text:
    say("information", last, "'x' does not depend on any axioms"); say("information", last, "'%s' does not depend on any axioms" % name)
else: say("information", last, "'%s' does not depend on any axioms" % name)
`;

let sandbox: Sandbox;
let folder: string;
let lean: string;
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 2 });
  folder = mkdtempSync(join(tmpdir(), "flywheel-lean-"));
  mkdirSync(join(folder, "bin"));
  lean = join(folder, "bin", "lean");
  writeFileSync(lean, speaksLikeLean);
  for (const path of [folder, join(folder, "bin"), lean]) chmodSync(path, 0o755);
}, 60_000);
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true });
});

const gold = { statement: "theorem two_add (n : Nat) :\n    n + 2 = 2 + n := by sorry", header: "open Nat" };
const grade = async (answer: string, more: object = {}): Promise<unknown> => {
  const verdict = await leanVerifier({ lean, sandbox }).verify({ answer, gold: { ...gold, ...more } });
  return verdict.type === "scored" ? verdict.score : verdict.type;
};

test("a proof alone, after the restated theorem, and with the header are the same", { timeout: 60_000 }, async () => {
  for (const answer of [
    "by omega",
    ":= by omega",
    "```lean4\ntheorem two_add (n : Nat) : n + 2 = 2 + n := by omega\n```",
    "```lean\nopen Nat\n\ntheorem two_add (n : Nat) :\n n + 2 =\n 2 + n := Nat.add_comm n 2\n```",
  ]) {
    expect(await grade(answer)).toBe(1);
  }
  expect(await grade("by exact by_choice")).toBe(1);
});

test("what the kernel does not vouch for scores 0", { timeout: 60_000 }, async () => {
  for (const answer of ["by exact wrong", "by exact by_axiom", "by exact hole_below", "by forge", "by twice"])
    expect(await grade(answer)).toBe(0);
});

test("a header that Lean refuses is no fault of the answer", { timeout: 60_000 }, async () => {
  expect(await grade("by omega", { header: "import unknown_module" })).toBe("unscorable");
});

const refused = [
  "by sorry",
  "by admit",
  "by native_decide",
  "by exact «sorry»",
  "sorryAx _ false",
  "by\n  run_tac do pure ()",
  "by omega\naxiom cheat : False",
  "by omega\n@[implemented_by f] def g := 1",
  'by omega\nmacro "omega" : tactic => `(tactic| trivial)',
  'by omega\nelab "x" : command => pure ()',
  "by omega\nend Check\ntheorem other : True := trivial",
  "by omega\nset_option debug.skipKernelTC true",
  "set_option maxRecDepth 1 in by omega",
  'by omega\n#eval IO.println "x"',
  "by omega\n#print axioms two_add",
  "by omega /- ",
  "by omega -/",
  "by omega /- /- -/",
  'by exact "',
  "by omega\nunsafe def x := 1",
  "by omega\nopaque x : Nat",
  'by omega\nnotation "x" => 1',
  "by omega\ninstance : Add Nat := ⟨fun _ _ => 0⟩",
  "by omega\nattribute [simp] x",
  "by omega\ninitialize x",
  "by exact (eval% 1)",
  'by omega\nlocal syntax "x" : term',
  "by omega\nopen Lean in run_cmd pure ()",
  's!"{sorry}"',
  "by stop omega",
  'by decide\n@[extern "x"] opaque y : Nat',
  "theorem two_add (n : Nat) : n = n := rfl",
  "theorem two_add (n : Nat) : n + 2 = 2 + n ∨ True := by simp",
  "theorem other (n : Nat) : n + 2 = 2 + n := by omega",
  "lemma x : True := trivial\ntheorem two_add (n : Nat) : n + 2 = 2 + n := by omega",
  "import Lean\ntheorem two_add (n : Nat) : n + 2 = 2 + n := by omega",
  "",
  " ",
  "```lean\n```",
];

test("tricks are refused before anything is checked", { timeout: 60_000 }, async () => {
  // A Lean that accepts everything would score them 1.
  const scores = await Promise.all(refused.map(async (answer) => [answer, await grade(answer)]));
  expect(scores).toEqual(refused.map((answer) => [answer, 0]));
});

test("words of proofs that look like commands are not refused", { timeout: 60_000 }, async () => {
  for (const answer of [
    "by simp [Matrix.trace, Polynomial.eval]",
    "by\n  -- no sorry here\n  /- axiom -/ omega",
    'by\n  have h := "theorem"\n  omega',
    "by exact h.end",
  ])
    expect(await grade(answer)).toBe(1);
});

test("without a toolchain the verdict is infrastructure, with how to install one", async () => {
  const verdict = await leanVerifier({ lean: "/nowhere/lean", sandbox }).verify({ answer: "by omega", gold });
  expect(verdict).toMatchObject({
    type: "infrastructure",
    reason: expect.stringContaining("no Lean toolchain, install with: apt-get install elan"),
  });
});

test("a toolchain in a home that others cannot enter is named", async () => {
  chmodSync(folder, 0o700);
  const verdict = await leanVerifier({ lean, sandbox })
    .verify({ answer: "by omega", gold })
    .finally(() => chmodSync(folder, 0o755));
  expect(verdict).toMatchObject({
    type: "infrastructure",
    reason: expect.stringContaining(`expected ${folder} to be readable by any user`),
  });
});

test("Lean itself, where there is one; else the verdict says that there is none", { timeout: 180_000 }, async () => {
  const verifier = leanVerifier({ sandbox });
  const verdicts = await Promise.all(["by omega", "by exact absurd rfl id", "rfl"].map((answer) => verifier.verify({ answer, gold })));
  const installed = (await findProgram("lean")) !== null && verdicts[0]!.type !== "infrastructure";
  if (installed)
    expect(verdicts).toMatchObject([
      { type: "scored", score: 1 },
      { type: "scored", score: 0 },
      { type: "scored", score: 0 },
    ]);
  else expect(verdicts.map(({ type }) => type)).toEqual(["infrastructure", "infrastructure", "infrastructure"]);
});
