import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { encodeEntry } from "../../../src/train/record/ledger.ts";
import { encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import type { Trajectory } from "../../../src/types.ts";
import { runFlywheel } from "../../fakes/cli.ts";

const folder = mkdtempSync(join(tmpdir(), "flywheel-verify-"));
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const lines = (...rows: object[]): string => rows.map((row) => JSON.stringify(row)).join("\n");

test("all accepted: a table, the totals, exit code 0", async () => {
  const path = file("good.jsonl", lines({ id: "a", gold: "1/2", answer: "0.5" }, { gold: 3, answer: "So \\boxed{3}." }));
  const { code, out, err } = await runFlywheel(["verify", path, "-V", "math"]);
  expect([code, err.includes("error")]).toEqual([0, false]);
  expect(out).toContain('a    1.000  yes       "0.5" is 1/2');
  expect(out).toContain("2 of 2 accepted, mean score 1.000; 0 unscorable, 0 not graded");
});

test("one that is not: exit code 1 and one line that says how many", async () => {
  const path = file("mixed.csv", 'id,truth,said\n1,"New York, NY","new york, ny"\n2,Rome,"Rome or ""Paris"""\n3,,x\n');
  const args = ["verify", path, "-V", "text", "--gold", "truth", "--answer", "said"];
  const table = await runFlywheel(args);
  expect(table.code).toBe(1);
  expect(table.out).toContain("1 of 3 accepted, mean score 0.500; 1 unscorable, 0 not graded");
  expect(table.err).toContain("error: 2 of 3 answers were not accepted");
  const { out, code } = await runFlywheel([...args, "--json"]);
  const json = JSON.parse(out);
  expect([code, json.rows, json.accepted, json.scored, json.unscorable, json.meanScore]).toEqual([1, 3, 1, 2, 1, 0.5]);
  expect(
    json.verdicts.map((each: { id: string; accepted: boolean; verdict: { type: string } }) => [each.id, each.accepted, each.verdict.type]),
  ).toEqual([
    ["1", true, "scored"],
    ["2", false, "scored"],
    ["3", false, "unscorable"],
  ]);
});

test("options are read strictly, and --accept sets the least score", async () => {
  const path = file("partial.jsonl", lines({ gold: ["one source text here"], answer: '"one source text here" [1], [2]' }));
  expect((await runFlywheel(["verify", path, "-V", "citations", "--accept", "0.5"])).code).toBe(0);
  expect((await runFlywheel(["verify", path, "-V", "citations"])).code).toBe(1);
  const unknown = await runFlywheel(["verify", path, "-V", "citations", "-o", '{"leest": 2}']);
  expect([unknown.code, unknown.err]).toEqual([
    1,
    expect.stringMatching(/citations: expected a known key, got leest \(did you mean least\?\); options are minWords, least, credit\n$/),
  ]);
  const wrong = await runFlywheel(["verify", path, "-V", "guess"]);
  expect(wrong.err).toContain("verifier: expected one of citations, code, graph, judge, json-schema, lean");
});

test("a verifier and a value that are mistyped are named with the nearest one", async () => {
  const path = file("one.jsonl", lines({ gold: "1", answer: "1" }));
  const of = async (...args: string[]) => (await runFlywheel(["verify", path, "-V", ...args])).err;
  expect(await of("mth")).toMatch(/^error: verifier: expected one of .*, got mth \(did you mean math\?\)\n$/);
  const code = await of("code", "-o", '{"language": "pyton"}');
  expect(code).toMatch(/^error: verifier code language: expected python or javascript .*, got "pyton" \(did you mean python\?\);/);
  expect(await of("code")).toMatch(/^error: verifier code language: expected python or .*, got nothing; options are language, /);
});

test("a file that cannot be graded is refused with what is wrong", async () => {
  const of = async (...args: string[]) => (await runFlywheel(["verify", ...args, "-V", "text"])).err;
  expect(await of(file("fields.jsonl", lines({ gold: "x", reply: "x" })))).toMatch(
    /line 1: expected a field "answer", got gold, reply; name it with --gold or --answer/,
  );
  expect(await of(file("broken.jsonl", '{"gold": 1\n'))).toMatch(/broken.jsonl line 1: expected a JSON object/);
  expect(await of(file("empty.csv", "gold,answer\n"))).toMatch(/expected at least one row, got none/);
  expect(await of(file("short.csv", "gold,answer\nx\n"))).toMatch(
    /short.csv row 1: expected cells separated as CSV is, got Invalid Record Length: columns length is 2, got 1/,
  );
  expect(await of(file("rows.txt", "x"))).toMatch(/expected a .jsonl, .csv or .parquet file, or a run folder, got .txt/);
  expect(await of(join(folder, "missing.csv"))).toMatch(/missing.csv: expected a file that can be read, got nothing there/);
  expect(await of()).toMatch(/verify: expected a file or a run folder, got none/);
});

test("--list names every verifier with its options", async () => {
  const { out, code } = await runFlywheel(["verify", "--list"]);
  expect(code).toBe(0);
  for (const name of [
    "citations",
    "graph",
    "json-schema",
    "judge",
    "length",
    "math",
    "molecule",
    "quantity",
    "repetition",
    "text",
    "tool-call",
  ]) {
    expect(out).toMatch(new RegExp(`^${name} `, "m"));
  }
  const listed = JSON.parse((await runFlywheel(["verify", "--list", "--json"])).out);
  expect(listed.find((each: { name: string }) => each.name === "math").options).toEqual([
    "seconds",
    "tolerance",
    "symbols",
    "second",
    "python",
  ]);
});

test("the rollouts of a run folder, against a key of the task's data", async () => {
  const run = join(folder, "run");
  mkdirSync(join(run, "trajectories"), { recursive: true });
  const rollout = (id: string, said: string, parse: "answer" | "truncated"): string => {
    const message = { role: "assistant", content: said } as const;
    const task = { id: "t", prompt: [], data: { answer: "1/2", other: 3 } };
    const turns = [{ row: 0, span: 0, message, parse, replies: [] }];
    const end = { type: "done" } as const;
    const trajectory: Trajectory = { id, task, sample: 0, rows: [], turns, messages: [message], end, measures: {}, seconds: 1 };
    return encodeRollout({ trajectory, verdict: { type: "unscorable", reason: "not graded yet" } }, null);
  };
  const files = {
    "config.json": "{}",
    "plan.json": "{}",
    "metrics.jsonl": "",
    "ledger.jsonl": `${encodeEntry({ step: 1, tasks: ["t"], rollouts: ["a", "b", "c"], version: 1 })}\n`,
    "trajectories/step-000001.jsonl": `${[
      rollout("a", "0.5", "answer"),
      rollout("b", "0.6", "answer"),
      rollout("c", "0.5", "truncated"),
    ].join("\n")}\n`,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(run, name), text);
  const { code, out } = await runFlywheel(["verify", run, "-V", "math", "--json"]);
  const { accepted, verdicts } = JSON.parse(out);
  expect([code, accepted]).toEqual([1, 1]);
  expect(verdicts.map((each: { id: string; verdict: { score: number } }) => [each.id, each.verdict.score])).toEqual([
    ["a", 1],
    ["b", 0],
    ["c", 0],
  ]);
  expect(verdicts[2].verdict.explanation).toBe("the last turn was cut off");
  expect((await runFlywheel(["verify", run, "-V", "math", "--gold", "truth"])).err).toMatch(
    /data "truth", got answer, other; name it with --gold/,
  );
  expect((await runFlywheel(["verify", run, "-V", "math", "--eval"])).err).toMatch(/expected recorded rollouts of eval, got none/);
});

test("programs and proofs: the fields of a row are the gold, as they are of a task", { timeout: 60_000 }, async () => {
  const answer = "```python\ndef add(a, b):\n    return a + b\n```";
  const programs = file("programs.jsonl", lines({ tests: ["assert add(1, 2) == 3"], answer }, { tests: "assert add(1, 2) == 4", answer }));
  const graded = await runFlywheel(["verify", programs, "-V", "code", "-o", '{"language": "python"}', "--json"]);
  type Row = { readonly verdict: { readonly type: string; readonly score?: number; readonly reason?: string } };
  const verdicts = (text: string): readonly Row[] => (JSON.parse(text) as { readonly verdicts: readonly Row[] }).verdicts;
  expect(verdicts(graded.out).map(({ verdict }) => verdict.score)).toEqual([1, 0]);
  const proofs = file("proofs.jsonl", lines({ statement: "theorem one : 1 + 1 = 2", answer: "by rfl" }));
  const proved = await runFlywheel(["verify", proofs, "-V", "lean", "-o", '{"lean": "/nowhere/lean"}', "--json"]);
  expect(verdicts(proved.out)[0]!.verdict).toMatchObject({ type: "infrastructure", reason: expect.stringContaining("no Lean toolchain") });
  // Named, a field is the gold alone.
  const named = await runFlywheel(["verify", proofs, "-V", "lean", "-g", "statement", "--json"]);
  expect(verdicts(named.out)[0]!.verdict).toMatchObject({ type: "unscorable", reason: "lean: the gold has no statement" });
});
