import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openRun } from "../../../src/train/record/run-folder.ts";
import { encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import { writeReport } from "../../../src/train/report/write-report.ts";
import { decodeAsIds, rowTokens } from "../../../src/train/report/token-text.ts";
import { fakeCredit, fakeScored, fakeTrajectory } from "../../fakes/rollouts.ts";

const words = ["", "<end>", "Q", "?\n", "<script>alert(1)</script>", "\n", "42", " is", " right"];
const decode = (ids: readonly number[]): string => ids.map((id) => words[id] ?? "?").join("");

async function demoRun(): Promise<string> {
  const folder = join(mkdtempSync(join(tmpdir(), "flywheel-report-")), "demo");
  await using run = await openRun({ folder, config: { name: "demo" }, plan: { steps: 2 }, resume: false });
  const evaluation = (step: number, right: number): string[] =>
    Array.from({ length: 10 }, (_, i) => {
      const { trajectory, verdict } = fakeScored(`e${step}-${i}`, i < right ? 1 : 0);
      return encodeRollout({ trajectory: { ...trajectory, task: { ...trajectory.task, id: `test-${i}` } }, verdict }, null);
    });
  await run.recordEvaluation({ step: 0, "heldout/success": 0.2, "heldout/tasks": 10 }, evaluation(0, 2));
  for (const step of [1, 2]) {
    const [good, bad] = [fakeScored(`s${step}-0`, 1), fakeScored(`s${step}-1`, 0)];
    const skipped = step === 1 ? { skipped: "non-finite gradient" } : {};
    const entry = { step, tasks: ["sum-1"], rollouts: [good.trajectory.id, bad.trajectory.id], version: step - 1, ...skipped };
    await run.commitStep({
      entry,
      metrics: { step, "reward/mean": 0.5, kl: Number.NaN },
      trajectories: [encodeRollout(bad, fakeCredit(bad, -0.5)), encodeRollout(good, fakeCredit(good, 0.5))],
    });
  }
  await run.recordEvaluation({ step: 2, "heldout/success": 0.9, "heldout/tasks": 10 }, evaluation(2, 9));
  return folder;
}

test("the report states the result with its intervals and shows the rollouts", async () => {
  const folder = await demoRun();
  const report = await writeReport(folder, { decode });
  expect(report.success).toEqual({ before: 0.2, after: 0.9 });
  // Wilson interval of 9 of 10: 0.5958 to 0.9821
  expect(report.findings[0]).toBe("held-out success from 20.0 % to 90.0 % (95 % interval 59.6 % – 98.2 %, 10 tasks)");
  // 7 gained, none lost, 10 tasks, half a task added to each cell: 7/12 +- 1.96 sqrt(8 - 49/12) / 12 = 0.5833 +- 0.3233
  expect(report.findings[1]).toBe("paired difference of the held-out score +0.700 (95 % interval +0.260 – +0.907, 10 tasks)");
  expect(report.findings[2]).toBe("1 of 2 steps changed no weights (most often: non-finite gradient, 1)");
  const html = readFileSync(report.html, "utf8");
  expect(html.match(/<div class="card rollout">/g)?.length).toBe(4);
  expect(html.indexOf("42 is right")).toBeLessThan(html.indexOf("42 was expected"));
  expect(html).toContain("advantage +0.50 · policy v3");
});

test("a success that is the same before and after has an interval all the same", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "flywheel-report-")), "sure");
  await using run = await openRun({ folder, config: { name: "sure" }, plan: { steps: 1 }, resume: false });
  const all = (step: number, score: number): string[] =>
    Array.from({ length: 8 }, (_, i) => {
      const { trajectory, verdict } = fakeScored(`e${step}-${i}`, score);
      return encodeRollout({ trajectory: { ...trajectory, task: { ...trajectory.task, id: `test-${i}` } }, verdict }, null);
    });
  await run.recordEvaluation({ step: 0, "heldout/success": 1, "heldout/tasks": 8 }, all(0, 1));
  const entry = { step: 1, tasks: [], rollouts: [], version: 1 };
  await run.commitStep({ entry, metrics: { step: 1, "reward/mean": 1 }, trajectories: [] });
  await run.recordEvaluation({ step: 1, "heldout/success": 1, "heldout/tasks": 8 }, all(1, 1));
  const { findings } = await writeReport(folder, { decode });
  // Wilson, 8 of 8: 1 / (1 + 3.8415 / 8) = 0.676. The pair: 0 +- 1.96 sqrt(1) / 10.
  expect(findings).toEqual([
    "held-out success from 100.0 % to 100.0 % (95 % interval 67.6 % – 100.0 %, 8 tasks)",
    "paired difference of the held-out score +0.000 (95 % interval −0.196 – +0.196, 8 tasks)",
  ]);
});

test("graded scores that all move alike have no bootstrap interval, and that is said", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "flywheel-report-")), "graded");
  await using run = await openRun({ folder, config: { name: "graded" }, plan: { steps: 1 }, resume: false });
  const all = (step: number, score: number): string[] =>
    ["a", "b"].map((id) => {
      const { trajectory, verdict } = fakeScored(`e${step}-${id}`, score);
      return encodeRollout({ trajectory: { ...trajectory, task: { ...trajectory.task, id } }, verdict }, null);
    });
  await run.recordEvaluation({ step: 0, "heldout/score": 0.25 }, all(0, 0.25));
  await run.commitStep({ entry: { step: 1, tasks: [], rollouts: [], version: 1 }, metrics: { step: 1 }, trajectories: [] });
  await run.recordEvaluation({ step: 1, "heldout/score": 0.75 }, all(1, 0.75));
  const { findings } = await writeReport(folder, { decode });
  expect(findings).toEqual(["paired difference of the held-out score +0.500 (the same for each, so no interval, 2 tasks)"]);
});

test("the page asks nothing of any other place, and model text stays text", async () => {
  const { html, svg } = await writeReport(await demoRun(), { decode });
  const page = readFileSync(html, "utf8");
  expect(page).toContain("default-src 'none'");
  expect(page).not.toMatch(/<script|<link|<img|@import|url\(|src=/);
  expect(page.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:/);
  expect(page).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
  expect(page).toContain("prefers-color-scheme: dark");
  expect(readFileSync(svg, "utf8")).not.toMatch(/NaN|undefined/);
});

test("a character spread over tokens is given to the first of them", () => {
  // Tokens 0 to 2 are the bytes of "€"; 3 is "x". Parts alone decode to the replacement character.
  const bytes = [[0xe2], [0x82], [0xac], [0x78]];
  const utf8 = (ids: readonly number[]): string => Buffer.from(ids.flatMap((id) => bytes[id] ?? [])).toString("utf8");
  const tokens = rowTokens({ spans: [{ kind: "context", ids: [3, 0, 1, 2, 3] }] }, 0, { credit: null, decode: utf8 });
  expect(tokens[0]?.map((token) => token.text)).toEqual(["x", "€", "", "", "x"]);
});

test("advantages follow the sampled tokens of their row", () => {
  const { rows, ...rest } = fakeTrajectory("r1");
  const credit = { trajectory: { rows, ...rest }, advantages: [Float32Array.of(1, 2, 3, 4, 5)] };
  const row = rows[0] ?? { spans: [] };
  const spans = rowTokens(row, 0, { credit, decode: decodeAsIds });
  expect(spans.map((span) => span.map((token) => (token.kind === "sampled" ? token.advantage : token.text)))).toEqual([
    ["⟨1⟩", "⟨2⟩", "⟨3⟩"],
    [1, 2],
    ["⟨6⟩"],
    [3, 4, 5],
  ]);
});
