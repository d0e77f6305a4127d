import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ownCommand } from "../../../src/app/cli/command.ts";
import { painter } from "../../../src/app/cli/ui/colour.ts";
import { rolloutView } from "../../../src/app/cli/ui/rollout-view.ts";
import { openRun } from "../../../src/train/record/run-folder.ts";
import { encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import { type CliResult, runFlywheel } from "../../fakes/cli.ts";
import { fakeCredit, fakeScored } from "../../fakes/rollouts.ts";

const words = ["", "<user>", "2 + 40", "?\n", "add(2, 40)", "<end>", "42\n", "The answer is", " 42"];
const decode = (ids: readonly number[]): string => ids.map((id) => (id === 2 ? "<end>" : (words[id] ?? "?"))).join("");
const folder = join(mkdtempSync(join(tmpdir(), "flywheel-cli-")), "demo");

const flywheel = (...args: string[]): Promise<CliResult> => runFlywheel(args, { decoderFor: () => Promise.resolve(decode) });

beforeAll(async () => {
  await using run = await openRun({ folder, config: { name: "demo" }, plan: {}, resume: false });
  for (const step of [1, 2]) {
    const [good, bad] = [fakeScored(`s${step}-0`, 1), fakeScored(`s${step}-1`, 0)];
    const entry = { step, tasks: ["sum-1"], rollouts: [good.trajectory.id, bad.trajectory.id], version: step };
    await run.commitStep({
      entry,
      metrics: { step, "reward/mean": 0.5 },
      trajectories: [encodeRollout(good, fakeCredit(good, 0.7)), encodeRollout(bad, fakeCredit(bad, -0.7))],
    });
  }
});

test("inspect lists the last step and shows its first rollout", async () => {
  const { code, out } = await flywheel("inspect", folder);
  expect(code).toBe(0);
  expect(out.split("\n")).toEqual([
    "step 2 of 2",
    "",
    "rollout  task   sample  score  advantage  turns  tokens  ended",
    "───────  ─────  ──────  ─────  ─────────  ─────  ──────  ─────",
    "s2-0     sum-1       0   1.00      +0.70      2       5  done",
    "s2-1     sum-1       0   0.00      −0.70      2       5  done",
    "",
    "rollout   s2-0  task sum-1  sample 0",
    "verdict   1.00  42 is right  correct 1",
    "measures  tools/calls 1  tools/errors 0  0.250 s",
    "ended     done",
    "",
    "<user><end>?",
    "",
    expect.stringMatching(/^── turn 1 toolCalls · end of turn · 2 tokens · policy v3 · mean log-prob -\d\.\d{3} · advantage \+0\.70$/),
    "add(2, 40)<end>",
    "42",
    "",
    expect.stringMatching(/^── turn 2 answer · end of turn · 3 tokens · policy v3 · mean log-prob -\d\.\d{3} · advantage \+0\.70$/),
    "The answer is 42<end>",
    "",
  ]);
});

test("inspect finds a rollout by id in any step, and adds the token table", async () => {
  const { out } = await flywheel("inspect", folder, "--rollout", "s1-1", "--tokens");
  expect(out).toContain("step 1 of 2");
  expect(out).toContain("verdict   0.00  42 was expected");
  expect(out).toMatch(/\n3 {3}4 {2}"add\(2, 40\)" +sampled +-\d\.\d{4} +\d\.\d{3} +−0\.70 +v3\n/);
});

test("the sign of the advantage is the background; context is dim", () => {
  const good = fakeScored("a", 1);
  const text = (advantage: number): string =>
    rolloutView({ scored: good, credit: fakeCredit(good, advantage) }, { decode, paint: painter(true), tokens: false }).join("\n");
  expect(text(0.5)).toContain("\u001b[30;42madd(2, 40)\u001b[39;49m");
  expect(text(-0.5)).toContain("\u001b[30;41madd(2, 40)\u001b[39;49m");
  expect(text(0)).toContain("\u001b[1madd(2, 40)\u001b[22m");
  // The line end is outside of the style.
  expect(text(1)).toContain("\u001b[2m42\u001b[22m\n");
});

test("wrong input is one line and exit code 1, a wrong command line exit code 2", async () => {
  const missing = await flywheel("inspect", "/nowhere");
  expect(missing).toEqual({
    code: 1,
    out: "",
    err: "error: run /nowhere: expected a run folder (with config.json), got none; give the path, for example runs/<name>\n",
  });
  expect((await flywheel("inspect", folder, "--rollout", "x")).err).toContain(
    "expected the id of a recorded rollout, got x; list them with --step",
  );
  expect((await flywheel("inspect", folder, "--step", "9")).err).toContain(
    "expected recorded rollouts of step 9, got none; recorded are steps 1 to 2",
  );
  expect((await flywheel("inspect", folder, "--eval")).err).toContain("got none of an evaluation yet");
  expect(await flywheel("inspect", folder, "--step", "two")).toMatchObject({
    code: 2,
    err: expect.stringContaining("expected a step number"),
  });
  expect(await flywheel("inspect", folder, "--rolout", "x")).toMatchObject({
    code: 2,
    err: expect.stringContaining("(Did you mean --rollout?)"),
  });
  expect(await flywheel("reprot")).toEqual({ code: 2, out: "", err: "error: unknown command 'reprot' (Did you mean report?)\n" });
});

test("the command that is printed is one that works where it is printed", () => {
  const started = (script: string, environment: NodeJS.ProcessEnv = {}) => ownCommand({ script, cwd: "/home/me/project", environment });
  expect(started("/home/me/project/node_modules/.bin/flywheel", { npm_command: "exec" })).toBe("npx flywheel");
  expect(started("/home/me/project/dist/app/cli/main.js", { npm_command: "run-script" })).toBe("npx flywheel");
  expect(started("/home/me/project/node_modules/.bin/flywheel")).toBe("npx flywheel");
  expect(started("/usr/local/bin/flywheel")).toBe("flywheel");
  expect(started("/home/me/project/dist/app/cli/main.js")).toBe("node dist/app/cli/main.js");
});

test("help and version", async () => {
  const help = await flywheel("--help");
  expect(help.code).toBe(0);
  for (const command of ["inspect <run>", "report <run>"]) expect(help.out).toContain(command);
  const version = (JSON.parse(readFileSync("package.json", "utf8")) as { version: string }).version;
  expect(await flywheel("--version")).toEqual({ code: 0, out: `${version}\n`, err: "" });
});

test("report prints its paths, as JSON on demand", async () => {
  const { out } = await flywheel("report", folder, "--json");
  expect(JSON.parse(out)).toEqual({
    html: join(folder, "report/index.html"),
    svg: join(folder, "report/curves.svg"),
    png: join(folder, "report/curves.png"),
    success: null,
    findings: [],
  });
});
