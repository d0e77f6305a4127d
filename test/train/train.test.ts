/** Whole runs on a tiny random model: what is learned, what is written, what is refused. */
import { existsSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { scored } from "../../src/errors.ts";
import { evaluate } from "../../src/train/evaluate/evaluate.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { openTrainedPolicy } from "../../src/train/trained.ts";
import { train } from "../../src/train/train.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

const wide = { max_position_embeddings: 256 };

test("GRPO raises the reward of a random policy within 20 steps; every step is on-policy", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const config = lettersConfig(model, { train: { steps: 20, checkpointEvery: 20 } });
  const { folder, steps } = await train(config, { env: letters(), runsFolder });
  const { metrics, ledger } = await readRun(folder);
  expect([steps, ledger.length]).toEqual([20, 20]);
  const mean = (from: number, to: number): number =>
    metrics.slice(from, to).reduce((sum, row) => sum + row["reward/mean"]!, 0) / (to - from);
  expect(mean(0, 2)).toBeLessThan(0.5);
  expect(mean(17, 20)).toBeGreaterThan(0.85);
  const updated = metrics.filter((row) => row["batch/skipped"] === 0);
  expect(updated.length).toBeGreaterThan(5);
  for (const row of updated) {
    // Sampler and trainer read the same weights: ratio 1 and KL 0 on fresh samples, at every step.
    expect(row["samplerGap"]).toBeLessThan(1e-4);
    expect(row["ratioGap"]).toBeLessThan(1e-4);
    expect(Math.abs(row["kl/old"]!)).toBeLessThan(1e-6);
    expect(row["clipFraction"]).toBe(0);
  }
  // A version more for every step that changed the weights, and every rollout was sampled by the one before.
  let version = 0;
  for (const entry of ledger) {
    const rollouts = await readTrajectories(folder, "step", entry.step);
    const spans = rollouts.flatMap(({ scored: { trajectory } }) => trajectory.rows.flatMap((row) => row.spans));
    const versions = spans.flatMap((span) => (span.kind === "sampled" ? [span.version] : []));
    expect([...new Set(versions)]).toEqual([version]);
    if (entry.skipped === undefined) version++;
    expect(entry.version).toBe(version);
  }
});

test("with a KL term the policy at step 0 is its own reference, and the term holds it back", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const config = lettersConfig(model, { model: { adapter: "lora" }, algo: { klCoef: 0.1 }, train: { steps: 3 } });
  const { folder } = await train(config, { env: letters(), runsFolder });
  const { metrics } = await readRun(folder);
  expect(Math.abs(metrics[0]!["kl/reference"]!)).toBeLessThan(1e-9);
  expect(metrics[2]!["kl/reference"]).toBeGreaterThan(1e-4);
});

const supervisedLine = (question: string, answer: string): string =>
  `${JSON.stringify({ messages: [{ role: "user", content: question }, { role: "assistant", content: answer }] })}\n`;

const dialogues = [["2+2", "four"], ["1+2", "three"], ["hi", "the dog"], ["bye", "the fox"]] as const;

test("supervised training lowers the loss of a handful of dialogues and then says them back greedily", { timeout: 300_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const data = join(runsFolder, "data.jsonl");
  writeFileSync(data, dialogues.map(([question, answer]) => supervisedLine(question, answer)).join(""));
  const { folder } = await train(
    {
      name: "sft",
      model: { path: model, adapter: "full" },
      data,
      algo: { name: "sft" },
      rollout: { tasksPerStep: 4, maxTokens: 16 },
      optim: { learningRate: 1e-2, schedule: "linear" },
      train: { steps: 60, evalEvery: 0, checkpointEvery: 60 },
    },
    { runsFolder },
  );
  const { metrics, ledger } = await readRun(folder);
  expect(metrics[0]!["loss"]).toBeGreaterThan(5);
  expect(metrics.at(-1)!["loss"]).toBeLessThan(0.05);
  // Assistant tokens and their end of turn alone are trained.
  expect(ledger[0]!.tasks.slice().sort()).toEqual(["dialogue 1", "dialogue 2", "dialogue 3", "dialogue 4"]);
  await using policy = await openTrainedPolicy(folder);
  const { renderer, engine } = policy;
  for (const [question, answer] of dialogues) {
    const { ids } = renderer.start([{ role: "user", content: question }]);
    const [span] = await engine.sample({
      prompt: ids, count: 1, maxTokens: 16, temperature: 0, stopIds: renderer.stopIds, keys: [{ hi: 0, lo: 0 }],
    });
    expect(renderer.parseTurn(span!.ids, span!.finish)).toEqual({ message: { role: "assistant", content: answer }, parse: "answer" });
  }
});

test("a supervised run resumes on the data it began with, and on no other", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const data = join(runsFolder, "data.jsonl");
  writeFileSync(data, supervisedLine("2+2", "four"));
  const stop = new AbortController();
  const resume = (more: object = {}) =>
    train(
      {
        name: "sft",
        model: { path: model, adapter: "full" },
        data,
        algo: { name: "sft" },
        rollout: { tasksPerStep: 1, maxTokens: 16 },
        train: { steps: 3, evalEvery: 0, checkpointEvery: 1 },
      },
      { runsFolder, resume: true, ...more },
    );
  await expect(resume({ resume: false, signal: stop.signal, observer: { onStep: () => stop.abort(new Error("enough")) } })).rejects.toThrow(
    "enough",
  );
  writeFileSync(data, supervisedLine("2+2", "five"));
  await expect(resume()).rejects.toThrow(/expected \S+data\.jsonl as it was when the run began .* restore it, or use another name$/);
  writeFileSync(data, supervisedLine("2+2", "four"));
  expect((await resume()).steps).toBe(3);
});

test("a model that is named relative to the working folder is found from another one afterwards", { timeout: 120_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const path = relative(process.cwd(), await writeTinyModel(join(runsFolder, "model"), "llama", wide));
  const config = lettersConfig(path, { rollout: { tasksPerStep: 1 }, algo: { groupSize: 2 }, train: { steps: 1 } });
  const { folder } = await train(config, { env: letters(), runsFolder });
  expect((await readRun(folder)).config["model"]).toMatchObject({ path: join(runsFolder, "model") });
  // A program has no options to give.
  const gone = train({ ...config, name: "other", model: { path: "./nowhere" } }, { env: letters(), runsFolder });
  await expect(gone).rejects.toThrow(/^model \.\/nowhere: expected a folder, a \.gguf or .*, got nothing at \//);
  const again = train(config, { env: letters(), runsFolder });
  await expect(again).rejects.toThrow(/got a run of 1 step; resume it, or use another name$/);
  expect(existsSync(join(runsFolder, "other"))).toBe(false);
});

test("the same evaluation twice is the same to the last bit, and in the run it is a pair of before and after", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  await using policy = await openPolicy(model);
  const env = letters();
  const tasks = Array.from({ length: 4 }, (_, i) => env.tasks("test").at(i));
  const options = {
    policy, seed: 7, step: 0, samples: 2, temperature: 1, maxTokens: 6, maxTurns: 1, concurrency: 8, deadlineSeconds: 60,
  };
  const [once, again] = [await evaluate(env, tasks, options), await evaluate(env, tasks, options)];
  const timeless = ({ seconds: _, samples, ...rest }: typeof once) => ({
    ...rest,
    samples: samples.map(({ verdict, trajectory }) => ({ verdict, trajectory: { ...trajectory, seconds: 0 } })),
  });
  expect(timeless(again)).toEqual(timeless(once));
  expect([once.scored, once.total, once.sampledTokens > 8]).toEqual([8, 8, true]);
  const other = await evaluate(env, tasks, { ...options, seed: 8 });
  expect(timeless(other).samples).not.toEqual(timeless(once).samples);

  const evaluated = await train(lettersConfig(model, { train: { steps: 2, evalEvery: 2, evalTasks: 4 } }), { env, runsFolder });
  const rows = [await readTrajectories(evaluated.folder, "eval", 0), await readTrajectories(evaluated.folder, "eval", 2)];
  const ids = rows.map((records) => records.map(({ scored: { trajectory } }) => trajectory.id));
  expect(ids[0]).toEqual(["heldout-0/h0/0", "heldout-0/h1/0", "heldout-0/h2/0", "heldout-0/h3/0"]);
  expect(ids[1]).toEqual(ids[0]);
  const { metrics } = await readRun(evaluated.folder);
  expect(metrics.filter((row) => "heldout/score" in row).map(({ step }) => step)).toEqual([0, 2]);
  expect(evaluated.evaluation!.score).toBe(metrics.at(-1)!["heldout/score"]);
});

test("a resumed run that has all its steps does nothing and says so", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const config = lettersConfig(model, { train: { steps: 2 } });
  const { folder } = await train(config, { env: letters(), runsFolder });
  const before = await readRun(folder);
  const notes: string[] = [];
  const result = await train(config, { env: letters(), runsFolder, resume: true, observer: { onNote: (text) => notes.push(text) } });
  expect(notes).toEqual(["all 2 steps of this run are done; nothing is left to train"]);
  expect(result).toEqual({ folder, steps: 2, evaluation: undefined });
  expect(await readRun(folder)).toEqual(before);
});

test("answers that are always cut before they can pay are told once, within three steps", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const notes: { step: number; text: string }[] = [];
  let step = 0;
  const env = { ...letters(), reward: () => scored(0, "no answer in it") };
  await train(lettersConfig(model, { rollout: { maxTokens: 8 }, train: { steps: 6 } }), {
    env,
    runsFolder,
    observer: { onStep: (row) => (step = row.step), onNote: (text) => notes.push({ step, text }) },
  });
  expect(notes.length).toBe(1);
  expect(notes[0]!.step).toBeLessThan(3);
  expect(notes[0]!.text).toMatch(
    /^no learning signal: \d+ % of completions cut at 8 tokens, reward 0 everywhere; raise rollout.maxTokens$/,
  );
});

test("a grader that keeps failing ends the run with its most common reason", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  let calls = 0;
  const inner = letters();
  const env = {
    ...inner,
    reward: (episode: Parameters<typeof inner.reward>[0]) => {
      if (episode.messages.at(-1)!.content !== "" && ++calls % 3 === 0) throw new Error("HTTP 503");
      return inner.reward(episode);
    },
  };
  await expect(train(lettersConfig(model), { env, runsFolder })).rejects.toThrow(
    /^rewards of the last 3 steps: expected at most 20 % unscored rollouts, got 3\d %; the most common reason: grader: HTTP 503 /,
  );
  const { ledger } = await readRun(join(runsFolder, "toy"));
  expect(ledger.length).toBe(2);
});

test("what an algorithm needs must be there, and what it would ignore must not", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const run = (changes: object, env = true) =>
    train({ ...lettersConfig(model), ...changes }, { runsFolder, ...(env ? { env: letters() } : {}) });
  await expect(run({ algo: { name: "sft" } })).rejects.toThrow(
    "data: expected a JSONL file of dialogues, which sft trains on, got nothing",
  );
  await expect(run({ data: "x.jsonl" })).rejects.toThrow("data: expected nothing with grpo, which trains on what it samples, got x.jsonl");
  await expect(run({ algo: { name: "process-grpo" } })).rejects.toThrow(
    "algo.name: expected an algorithm that needs no scorer of turns, got process-grpo; hand one to train({ attach })",
  );
  await expect(run({}, false)).rejects.toThrow("env: expected an environment, which grpo samples in, got nothing");
  await expect(run({ env: { name: "desk" } })).rejects.toThrow(
    'env.name: expected "letters", the environment that was handed in, got "desk"',
  );
});
