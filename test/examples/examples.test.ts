import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { shop } from "../../examples/hello-env.ts";
import { shorten } from "../../examples/loop.ts";
import { train } from "../../src/index.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

test.each(["train", "test"] as const)("shop: the reference scores 1 and an empty answer 0 on every %s task", async (split) => {
  const env = shop();
  const source = env.tasks(split);
  for (let i = 0; i < source.size; i++) {
    const task = source.at(i);
    const right = await playScripted(env, task, env.reference!(task));
    expect([right.done, right.verdict]).toMatchObject([true, { type: "scored", score: 1 }]);
    const empty = await playScripted(env, task, [{ role: "assistant", content: "" }]);
    expect(empty.verdict).toMatchObject({ type: "scored", score: 0 });
  }
});

test("shop: the look-up is measured, and its errors are told to the model", async () => {
  const env = shop();
  const task = env.tasks("train").at(0);
  expect((await playScripted(env, task, env.reference!(task))).measures).toMatchObject({ lookedUp: 1, toolCalls: 1, toolErrors: 0 });
  const wrong = { id: "c", name: "look_up", arguments: { item: "kiwis" } };
  const played = await playScripted(env, task, [{ role: "assistant", content: "", toolCalls: [wrong] }]);
  expect(played.messages.at(-1)!.content).toBe("error: no item kiwis; items: apples, pears, plums, quinces, lemons, figs");
  expect(played.measures).toMatchObject({ lookedUp: 0, toolErrors: 1 });
});

test("shop: two steps of GRPO on a model with random weights", { timeout: 180_000 }, async () => {
  const folder = await temporaryFolder();
  const model = await writeTinyModel(join(folder, "model"), "llama", { max_position_embeddings: 1024 });
  const result = await train(
    {
      name: "hello",
      model: { path: model, adapter: "full" },
      algo: { name: "grpo", groupSize: 2 },
      rollout: { tasksPerStep: 2, maxTokens: 8 },
      train: { steps: 2, evalEvery: 2, checkpointEvery: 2 },
    },
    { env: shop(), runsFolder: join(folder, "runs") },
  );
  expect(result.steps).toBe(2);
  expect(result.evaluation).toMatchObject({ scored: 2, success: 0 });
  const { ledger } = await readRun(result.folder);
  expect(ledger.map(({ step, rollouts, checkpoint }) => [step, rollouts.length, checkpoint])).toEqual([
    [1, 4, undefined],
    [2, 4, "step-000002"],
  ]);
  const [first] = await readTrajectories(result.folder, "step", 1);
  expect(first!.scored.verdict).toMatchObject({ type: "scored", score: 0 });
});

test("loop: answers get shorter", { timeout: 180_000 }, async () => {
  const model = await writeTinyModel(await temporaryFolder(), "llama");
  const means = await shorten(model, { steps: 20, learningRate: 1e-2 });
  expect(means).toHaveLength(20);
  const early = means.slice(0, 5).reduce((a, b) => a + b, 0);
  const late = means.slice(-5).reduce((a, b) => a + b, 0);
  expect(late).toBeGreaterThan(early + 1);
});

test.each([
  ["docs/environments.md", "examples/hello-env.ts"],
  ["docs/engine.md", "examples/loop.ts"],
])("%s shows %s", (page, example) => {
  const code = readFileSync(example, "utf8").replace('"../src/index.ts"', '"flywheel"').replace(/^\/\*\*.*\*\/\n/, "");
  expect(readFileSync(page, "utf8")).toContain(`\`\`\`ts\n${code}\`\`\`\n`);
});
