import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runSettings } from "../../../src/app/cli/source.ts";
import { runFlywheel } from "../../fakes/cli.ts";

function runFolder(config: object): string {
  const folder = mkdtempSync(join(tmpdir(), "flywheel-eval-"));
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "ledger.jsonl"), "");
  return folder;
}

test("a run is measured on its own environment, with its own limits", async () => {
  const env = { name: "sums", digits: [1, 1] };
  const folder = runFolder({ env, rollout: { maxTokens: 24, maxTurns: 2 } });
  expect(await runSettings(folder, { cwd: "/" })).toMatchObject({ env, maxTokens: 24, maxTurns: 2 });
  expect(await runSettings("models/desk-1m", { cwd: process.cwd() })).toBeNull();
});

test("a run whose environment came from a program is not measured on another", async () => {
  const { code, err } = await runFlywheel(["eval", runFolder({ rollout: { maxTokens: 24, maxTurns: 2 } })]);
  expect(code).not.toBe(0);
  const told = "expected a configuration that names its environment, got none; it was trained on given examples, or its environment";
  expect(err).toContain(told);
});

test("more tokens than the model's context are refused", async () => {
  const { code, err } = await runFlywheel(["eval", "models/desk-1m", "--max-tokens", "1024", "--tasks", "1"]);
  expect([code, err]).toEqual([1, "error: --max-tokens: expected 1 to 1023, less than the model's context, got 1024\n"]);
});
