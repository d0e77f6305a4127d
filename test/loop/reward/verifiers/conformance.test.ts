import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "../../../../src/compute/sandbox/open.ts";
import type { Sandbox } from "../../../../src/compute/sandbox/sandbox.ts";
import { codeVerifier } from "../../../../src/loop/reward/verifiers/code.ts";
import { leanVerifier } from "../../../../src/loop/reward/verifiers/lean.ts";
import type { Verifier } from "../../../../src/loop/reward/verifiers/verifier.ts";
import { citations } from "../../../../src/loop/reward/verifiers/citations.ts";
import { graph } from "../../../../src/loop/reward/verifiers/graph.ts";
import { jsonSchema } from "../../../../src/loop/reward/verifiers/json-schema.ts";
import { judge, type Complete } from "../../../../src/loop/reward/verifiers/judge.ts";
import { length } from "../../../../src/loop/reward/verifiers/length.ts";
import { math } from "../../../../src/loop/reward/verifiers/math.ts";
import { molecule } from "../../../../src/loop/reward/verifiers/molecule.ts";
import { quantity } from "../../../../src/loop/reward/verifiers/quantity.ts";
import { listVerifiers } from "../../../../src/loop/reward/verifiers/registry.ts";
import { repetition } from "../../../../src/loop/reward/verifiers/repetition.ts";
import { text } from "../../../../src/loop/reward/verifiers/text.ts";
import { toolCall } from "../../../../src/loop/reward/verifiers/tool-call.ts";
import { verifierConformance } from "../../../conformance/verifier.ts";

verifierConformance("text", {
  make: () => text(),
  gold: "African Wild Dog",
  right: { answer: "african wild dog.", score: 1 },
  wrong: "African Wild Dog, or a cat",
  badGolds: [null, "", [], [5]],
});
verifierConformance("text, exact", {
  make: () => text({ match: "exact" }),
  gold: ["a b", "c"],
  right: { answer: "c", score: 1 },
  wrong: "C",
  badGolds: [null, [""]],
});
verifierConformance("math", {
  make: () => math({ seconds: 1 }),
  gold: "\\frac{\\sqrt{3}}{2}",
  right: { answer: "So \\boxed{\\sin 60^\\circ}.", score: 1 },
  wrong: "0.866",
  badGolds: [null, "", [], "\\nonsense{", { a: 1 }],
});
verifierConformance("quantity", {
  make: () => quantity(),
  gold: "1.5 km",
  right: { answer: "1,500 m", score: 1 },
  wrong: "1.5 m",
  badGolds: [null, "far", "3 parsnips", {}, []],
});
verifierConformance("json-schema", {
  make: () => jsonSchema(),
  gold: { type: "object", required: ["name"], properties: { name: { type: "string" } }, additionalProperties: false },
  right: { answer: '{"name": "x"}', score: 1 },
  wrong: '{"name": 5}',
  badGolds: [null, "x", { type: "nonsense" }, { pattern: "(a+)+$" }],
});
verifierConformance("tool-call", {
  make: () => toolCall(),
  gold: [{ name: "add", arguments: { a: 1, b: { anyOf: [2, "2"] } } }],
  right: { answer: '[{"name": "add", "arguments": {"b": "2", "a": 1}}]', score: 1 },
  wrong: '{"name": "add", "arguments": {"a": 1}}',
  badGolds: [null, "x", [5], [{ arguments: {} }]],
});
verifierConformance("citations", {
  make: () => citations(),
  gold: ["The river rose by two metres in the night.", "Nobody was hurt."],
  right: { answer: 'It says "rose by two metres in the night" [1].', score: 1 },
  wrong: 'It says "rose by three metres in the night" [1].',
  badGolds: [null, [], "x", [5]],
});
verifierConformance("length", {
  make: () => length({ least: 3, most: 50 }),
  gold: null,
  right: { answer: "one two three", score: 0 },
  wrong: "one",
  badGolds: [],
});
verifierConformance("repetition", {
  make: () => repetition(),
  gold: null,
  right: { answer: "all words here are said only once", score: 0 },
  wrong: "no no no no no no no no no no",
  badGolds: [],
});
verifierConformance("graph, triples", {
  make: () => graph(),
  gold: "<http://e/a> <http://e/p> [ <http://e/q> 1 ] .",
  right: { answer: "<http://e/a> <http://e/p> _:z . _:z <http://e/q> 1 .", score: 1 },
  wrong: "<http://e/a> <http://e/p> _:z .",
  badGolds: [null, "", "nonsense"],
});
verifierConformance("graph, shacl", {
  make: () => graph({ mode: "shacl" }),
  gold: [
    "@prefix sh: <http://www.w3.org/ns/shacl#> .",
    "<http://e/S> a sh:NodeShape ; sh:targetClass <http://e/P> ; sh:property [ sh:path <http://e/n> ; sh:minCount 1 ] .",
  ].join("\n"),
  right: { answer: "<http://e/a> a <http://e/P> ; <http://e/n> 1 .", score: 1 },
  wrong: "<http://e/a> a <http://e/P> .",
  badGolds: [null, "", "nonsense", "<http://e/a> <http://e/b> 1 ."],
});
verifierConformance("graph, sparql", {
  make: () => graph({ mode: "sparql" }),
  gold: { data: "<http://e/a> <http://e/p> 1 .", query: "SELECT ?s { ?s <http://e/p> 1 }" },
  right: { answer: "SELECT ?x WHERE { ?x <http://e/p> ?y }", score: 1 },
  wrong: "SELECT ?y WHERE { ?x <http://e/p> ?y }",
  badGolds: [null, "", { data: "x", query: "y" }, { data: "" }],
});
verifierConformance("molecule", {
  make: () => molecule(),
  gold: "CCO",
  right: { answer: "OCC", score: 1 },
  wrong: "CCN",
  badGolds: [null, "", [], "C1CC", 5],
});

/** A judge that reads: the full grade for the text that is right, and none for another. */
const honest: Complete = async ([system, user]) => {
  const code = /"code": "([0-9a-f]+)"/.exec(system!.content)![1];
  const good = user!.content.includes("because water freezes at 0 degrees");
  return JSON.stringify({ code, reason: "it gives the reason", grade: good ? 4 : 0 });
};
verifierConformance("judge", {
  make: () => judge({ complete: honest, rubric: "Does it give the reason?" }),
  gold: null,
  right: { answer: "because water freezes at 0 degrees", score: 1 },
  wrong: "because",
  badGolds: [],
});

// ------------------------------------------------------------------------------------------- those that run programs

let sandbox: Sandbox;
let folder: string;
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 2 });
  folder = mkdtempSync(join(tmpdir(), "flywheel-lean-"));
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin", "lean"), knowsOneProof);
  for (const path of [folder, join(folder, "bin"), join(folder, "bin", "lean")]) chmodSync(path, 0o755);
}, 60_000);
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true });
});

/** Opened when the first answer comes, as the sandbox is. */
const later = (name: string, make: () => Verifier): Verifier => {
  let made: Verifier | undefined;
  return { name, verify: (input) => (made ??= make()).verify(input) };
};

for (const [language, right, wrong, tests] of [
  ["python", "def add(a, b):\n    return a + b", "def add(a, b):\n    return a - b", "assert add(1, 2) == 3\nassert add(5, 5) == 10"],
  ["javascript", "export const add = (a, b) => a + b;", "export const add = (a, b) => a - b;", ["assert.equal(add(1, 2), 3)"]],
] as const)
  verifierConformance(`code, ${language}`, {
    make: () => later("code", () => codeVerifier({ language, sandbox, limits: { wallSeconds: 5, cpuSeconds: 2 } })),
    gold: { tests },
    right: { answer: `\`\`\`${language}\n${right}\n\`\`\``, score: 1 },
    wrong: `\`\`\`${language}\n${wrong}\n\`\`\``,
    badGolds: [null, "", [], { tests: "" }, { tests: 5 }],
    hostile: 60,
  });

/** Speaks as `lean --json` does, and takes one proof. What Lean itself takes is tested where there is one (lean.test.ts). */
const knowsOneProof = `#!/usr/bin/python3
import json, sys
if sys.argv[1] == "--print-prefix":
    print(__file__.rsplit("/", 2)[0]); sys.exit(0)
lines = open(sys.argv[-1]).read().split("\\n")
def say(severity, line, data):
    print(json.dumps({"severity": severity, "pos": {"line": line, "column": 0}, "endPos": None, "fileName": "Check.lean", "data": data}))
at = next(i for i, l in enumerate(lines) if l.startswith("#print axioms "))
if not any(l.strip() == "by omega" or l.endswith(":= by omega") for l in lines):
    say("error", 1, "unsolved goals"); sys.exit(1)
say("information", at + 1, "'%s' does not depend on any axioms" % lines[at][len("#print axioms "):])
`;
verifierConformance("lean", {
  make: () => later("lean", () => leanVerifier({ lean: join(folder, "bin", "lean"), sandbox })),
  gold: { statement: "theorem two_add (n : Nat) : n + 2 = 2 + n := by sorry" },
  right: { answer: "by omega", score: 1 },
  wrong: "by simp",
  badGolds: [null, "", [], {}, { statement: "" }, { statement: "5" }],
  hostile: 60,
});

test("no verifier is left out of this suite", () => {
  const text = readFileSync("test/loop/reward/verifiers/conformance.test.ts", "utf8");
  const covered = [...text.matchAll(/verifierConformance\(["`]([\w-]+)/g)].map((match) => match[1]);
  expect(listVerifiers().map(({ name }) => name).filter((name) => !covered.includes(name))).toEqual([]);
});
