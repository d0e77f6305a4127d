import { expect, test } from "vitest";
import { programming, trainProgrammer } from "../../examples/code-verifier.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { temporaryFolder } from "../fakes/model-folders.ts";

const data = "examples/functions.jsonl";

test("every solution scores 1, an early exit and an empty answer 0", { timeout: 120_000 }, async () => {
  const env = programming(data);
  const source = env.tasks("train");
  expect(source.size).toBe(6);
  for (let i = 0; i < source.size; i++) {
    const task = source.at(i);
    expect((await playScripted(env, task, env.reference!(task))).verdict).toMatchObject({
      type: "scored",
      score: 1,
      explanation: "2 of 2 tests passed",
    });
    for (const content of ["", "```python\nimport os\nos._exit(0)\n```"]) {
      expect((await playScripted(env, task, [{ role: "assistant", content }])).verdict).toMatchObject({ type: "scored", score: 0 });
    }
  }
});

test("two steps on the shipped model: every answer was run, and each verdict says what happened", { timeout: 240_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const result = await trainProgrammer({ model: "models/desk-1m", data, runsFolder, steps: 2 });
  expect(result.steps).toBe(2);
  const { ledger } = await readRun(result.folder);
  expect(ledger.map(({ step, rollouts }) => [step, rollouts.length])).toEqual([
    [1, 8],
    [2, 8],
  ]);
  const trajectories = [...(await readTrajectories(result.folder, "step", 1)), ...(await readTrajectories(result.folder, "step", 2))];
  for (const { scored } of trajectories) expect(scored.verdict.type).toBe("scored");
});
