/** Runs that end when they have sampled what they may. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { TokenBudget } from "../../src/train/token-budget.ts";
import { train } from "../../src/train/train.ts";
import { memberOf, QUESTION, sampled, trajectoryOf } from "../fakes/credit.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

const budgetOf = (maxSampledTokens: number, extra?: object) =>
  new TokenBudget({
    config: { train: { maxSampledTokens } } as never,
    run: { resumedFrom: extra === undefined ? null : ({ name: "step-000003", manifest: { extra } } as never) },
  });

test("trained, replaced and greedy completions count; context does not", () => {
  const row = { spans: [{ kind: "context" as const, ids: [1, 2, 3] }, sampled([4, 5]), sampled([6])] };
  const member = memberOf(trajectoryOf([row, { spans: [sampled([7])] }]), 1);
  const budget = budgetOf(9);
  // 2 + 1 + 1 sampled tokens each.
  budget.add([{ task: QUESTION, members: [member, member] }]);
  expect([budget.spent, budget.exhausted]).toEqual([8, undefined]);
  budget.add([{ task: QUESTION, members: [], greedy: member }]);
  expect([budget.spent, budget.exhausted]).toEqual([12, "12 tokens sampled of train.maxSampledTokens 9"]);
});

test("0 is no limit; a checkpoint's count goes on, one without a count begins at 0, a wrong one is refused", () => {
  expect(budgetOf(0, { sampledTokens: 1e9 }).exhausted).toBeUndefined();
  expect(budgetOf(5, { sampledTokens: 5 }).exhausted).toBe("5 tokens sampled of train.maxSampledTokens 5");
  expect(budgetOf(5, {}).spent).toBe(0);
  expect(() => budgetOf(5, { sampledTokens: -1 })).toThrow("checkpoint step-000003: expected a count of sampled tokens, got -1");
});

test("a run ends with the step that spends its budget, evaluated; resumed it has nothing left", { timeout: 120_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  const limit = 150;
  const config = lettersConfig(model, { train: { steps: 30, maxSampledTokens: limit, checkpointEvery: 2, evalEvery: 30 } });
  const run = await train(config, { env: letters(), runsFolder });
  const { metrics, ledger } = await readRun(run.folder);
  const tokens: number[] = [];
  for (const { step } of ledger) {
    const rollouts = await readTrajectories(run.folder, "step", step);
    const spans = rollouts.flatMap(({ scored: { trajectory } }) => trajectory.rows.flatMap((row) => row.spans));
    tokens.push((tokens.at(-1) ?? 0) + spans.reduce((sum, { kind, ids }) => sum + (kind === "sampled" ? ids.length : 0), 0));
  }
  expect(metrics.flatMap((row) => row["tokens/sampled"] ?? [])).toEqual(tokens);
  expect(tokens.length).toBeGreaterThan(1);
  expect(tokens.length).toBeLessThan(30);
  expect(tokens.map((spent) => spent >= limit)).toEqual(tokens.map((_, i) => i === tokens.length - 1));
  expect(run.stopped).toBe(`${tokens.at(-1)} tokens sampled of train.maxSampledTokens ${limit}`);
  expect(metrics.filter((row) => row["heldout/success"] !== undefined).map(({ step }) => step)).toEqual([0, tokens.length]);
  const checkpoint = join(run.folder, "checkpoints", `step-${String(tokens.length).padStart(6, "0")}`);
  expect(existsSync(checkpoint)).toBe(true);

  const resumed = await train(config, { env: letters(), runsFolder, resume: true });
  expect([resumed.steps, resumed.stopped]).toEqual([run.steps, run.stopped]);
  // Without the last checkpoint the last step is done again, and it ends there.
  rmSync(checkpoint, { recursive: true });
  const again = await train(config, { env: letters(), runsFolder, resume: true });
  expect([again.steps, again.stopped]).toEqual([run.steps, run.stopped]);
});
