import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { env as products, first } from "../../examples/first.ts";
import { shop } from "../../examples/hello-env.ts";
import { shorten } from "../../examples/loop.ts";
import { ranked } from "../../examples/own-algorithm.ts";
import { openPolicy, rng, train } from "../../src/index.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { context, groupOf, memberOf, plainContext, QUESTION, trajectoryOf } from "../fakes/credit.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

test("first: the program of the README, and its questions differ", () => {
  const readme = readFileSync("README.md", "utf8");
  const lines = readFileSync("examples/first.ts", "utf8").split("\n");
  const from = (start: string, end: string) => lines.slice(lines.indexOf(start) + 1, lines.indexOf(end, lines.indexOf(start))).join("\n");
  expect(readme).toContain(from("function products(rest: 0 | 1) {", "}"));
  expect(readme).toContain(from("export const env: Env = defineEnv({", "});"));
  const questions = (split: "train" | "test"): string[] => {
    const source = products.tasks(split);
    return Array.from({ length: source.size }, (_, i) => source.at(i).prompt.at(-1)!.content);
  };
  const trained = new Set(questions("train"));
  const measured = new Set(questions("test"));
  expect([trained.size, measured.size, [...measured].filter((question) => trained.has(question))]).toEqual([87, 87, []]);
});

test("first: one step, told line by line because standard error is a terminal", { timeout: 180_000 }, async () => {
  const { stderr } = process;
  const before = Object.getOwnPropertyDescriptor(stderr, "isTTY");
  const write = stderr.write;
  let told = "";
  Object.defineProperty(stderr, "isTTY", { value: true, configurable: true });
  stderr.write = (text: string | Uint8Array) => (told += String(text)) !== "";
  try {
    expect((await first(1, await temporaryFolder())).steps).toBe(1);
  } finally {
    stderr.write = write;
    if (before === undefined) Reflect.deleteProperty(stderr, "isTTY");
    else Object.defineProperty(stderr, "isTTY", before);
  }
  const lines = told.trimEnd().split("\n");
  expect(lines[0]).toBe("each step   16 tasks x 8 samples = 128 completions, at most 65,536 sampled tokens");
  expect(lines.slice(-3)).toEqual([
    expect.stringMatching(/^before training: success \d+\.\d % \(95 % interval .*, 64 held-out tasks\)$/),
    expect.stringMatching(/^step 1\/1 {2}reward 0\.\d+ .* {2}\d+\.\d s$/),
    expect.stringMatching(/^after step 1: success \d+\.\d % /),
  ]);
});

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
  const { measures } = await playScripted(env, task, env.reference!(task));
  expect(measures).toMatchObject({ lookedUp: 1, "tools/calls": 1, "tools/errors": 0 });
  const wrong = { id: "c", name: "look_up", arguments: { item: "kiwis" } };
  const played = await playScripted(env, task, [{ role: "assistant", content: "", toolCalls: [wrong] }]);
  expect(played.messages.at(-1)!.content).toBe("error: no item kiwis; items: apples, pears, plums, quinces, lemons, figs");
  expect(played.measures).toMatchObject({ lookedUp: 0, "tools/errors": 1 });
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

test("own algorithm: ranks as advantages", () => {
  const groups = [groupOf(1, 1000, 0, "no verdict"), groupOf(2, 2, 5), groupOf(0.1, 0.1)];
  const firsts = ranked()
    .credit(groups, plainContext)
    .map((group) => group.map((credit) => credit?.advantages[0]![0] ?? null));
  // Of three: (below - above) / 2.
  expect(firsts).toEqual([
    [0, 1, -1, null],
    [-0.5, -0.5, 1],
    [0, 0],
  ]);
  expect(() => ranked({ groupSize: 1 })).toThrow("algo.groupSize: expected an integer of at least 2 and at most 64, got 1");
});

test("own algorithm: one step makes the best answers likelier and the worst ones less", { timeout: 180_000 }, async () => {
  await using policy = await openPolicy(await writeTinyModel(await temporaryFolder(), "llama"), { train: { type: "full" } });
  const { engine } = policy;
  const { ids: prompt } = policy.renderer.start([{ role: "user", content: "Say hello." }]);
  const algorithm = ranked({ groupSize: 4 });
  const keys = [0, 1, 2, 3].map((sample) => rng(0, sample));
  const spans = await engine.sample({ prompt, count: 4, maxTokens: 8, temperature: 1, stopIds: [], keys });
  const members = spans.map((span, i) => memberOf(trajectoryOf([{ spans: [context(...prompt), span] }]), [3, 900, 1, 2][i]!));
  const credits = algorithm.credit([{ task: QUESTION, members }], plainContext);
  const { batch } = buildBatch(credits, { ...algorithm, maxLength: 8, skipZero: true });
  const before = await engine.forwardBackward(batch!, algorithm.loss);
  expect(before.loss).toBeCloseTo(0, 5); // ranks of answers of one length sum to 0
  await engine.optimStep({ beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1, learningRate: 1e-3 });
  const after = await engine.logprobs(batch!.units[0]!.rows);
  const gain = after.map((row, i) => row.reduce((sum, value, t) => sum + value - before.logprobs[0]![i]![t]!, 0));
  // Rewards 3, 900, 1, 2 have the ranks 1/3, 1, -1, -1/3.
  expect(gain[1]).toBeGreaterThan(0);
  expect(gain[2]).toBeLessThan(0);
});

test.each([
  ["docs/environments.md", "examples/hello-env.ts"],
  ["docs/engine.md", "examples/loop.ts"],
  ["docs/algorithms/own-algorithm.md", "examples/own-algorithm.ts"],
])("%s shows %s", (page, example) => {
  const source = readFileSync(example, "utf8").replace('"../src/index.ts"', '"flywheel"');
  const code = source.replace('"../src/algo/index.ts"', '"flywheel/algo"').replace(/^\/\*\*.*\*\/\n/, "");
  expect(readFileSync(page, "utf8")).toContain(`\`\`\`ts\n${code}\`\`\`\n`);
});
