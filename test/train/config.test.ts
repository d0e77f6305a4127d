import { expect, test } from "vitest";
import { algorithms } from "../../src/algo/registry.ts";
import { ConfigError } from "../../src/errors.ts";
import { type TrainConfig, configJson, parseTrainConfig, planHash } from "../../src/train/config.ts";
import { type PlanFacts, plan, planLines } from "../../src/train/plan.ts";
import type { Json } from "../../src/types.ts";

const least = { name: "demo", model: { path: "models/tiny" }, env: { name: "arithmetic", digits: 2 }, algo: { name: "grpo" } };
const facts: PlanFacts = {
  trainTasks: 400,
  testTasks: 50,
  contextLength: 2048,
  parameters: 1e8,
  trainable: 1e6,
  layers: 10,
  hidden: 100,
  intermediate: 200,
  vocabulary: 1000,
  cachePerTokenLayer: 64,
};

/** A JSON value of the same kind that is another allowed one; null if there is no single-key change. */
function changed(path: string, value: Json): Json {
  const words: Record<string, string> = {
    "algo.klEstimator": "k1",
    "algo.correction": "token-mask",
    "algo.reduction": "constant",
    "algo.scale": "none",
    "optim.schedule": "cosine",
    "rollout.pace": "lockstep",
    "rollout.compaction": "rule-summary",
    "train.onCollapse": "stop",
  };
  if (path in words) return words[path] ?? null;
  if (path === "train.referenceDecay") return 0.9;
  if (typeof value === "string") return `${value}2`;
  if (typeof value === "boolean") return !value;
  if (Array.isArray(value)) return value.slice(1);
  if (typeof value !== "number") return null;
  return Number.isInteger(value) && value !== 1 ? value + 1 : value === 1 ? 2 : value / 2;
}

function leaves(value: Json, path = ""): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [path];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, path === "" ? key : `${path}.${key}`));
}

function edited(config: TrainConfig, path: string): unknown {
  const copy: Record<string, unknown> = structuredClone(configJson(config));
  const keys = path.split(".");
  const last = keys.pop() ?? "";
  const parent = keys.reduce((inner, key) => inner[key] as Record<string, unknown>, copy);
  parent[last] = changed(path, parent[last] as Json);
  return copy;
}

test("defaults are filled in, and a resolved configuration resolves to itself", () => {
  const config = parseTrainConfig(least);
  expect(config.algo).toEqual({
    name: "grpo",
    groupSize: 8,
    clipLow: 0.2,
    clipHigh: 0.2,
    dualClip: 0,
    klCoef: 0,
    klEstimator: "k3",
    reduction: "token-mean",
    scale: "group-sample-std",
    maskTruncated: false,
    epochsPerBatch: 1,
    entropyCoef: 0,
    entropyFloor: 0,
    offPolicyDelta: 0,
    clipCovFraction: 0,
    klCovCoef: 0,
    covLow: 1,
    covHigh: 5,
    correction: "none",
    correctionCap: 2,
  });
  expect(config.model).toMatchObject({ adapter: "lora", rank: 16, alpha: 32 });
  expect(config.optim).toEqual({
    learningRate: 1e-5,
    schedule: "constant",
    warmupSteps: 0,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weightDecay: 0,
    maxGradNorm: 1,
  });
  expect(parseTrainConfig(configJson(config))).toEqual(config);
  expect(planHash(parseTrainConfig(configJson(config)))).toBe(planHash(config));
});

test("the default learning rate follows the method and the adapter", () => {
  const rate = (algo: string, adapter: string): number =>
    parseTrainConfig({ ...least, model: { path: "m", adapter }, algo: { name: algo } }).optim.learningRate;
  expect([rate("grpo", "full"), rate("grpo", "lora"), rate("sft", "full"), rate("sft", "lora")]).toEqual([1e-6, 1e-5, 2e-5, 2e-4]);
});

test("each key, changed, changes the hash", () => {
  // With every part on that another key depends on; KL-Cov excludes Clip-Cov, so it is tried by itself.
  const parts = { klCoef: 0.1, entropyCoef: 0.1, clipCovFraction: 0.1, correction: "token-truncate", dualClip: 3 };
  const config = parseTrainConfig({ ...least, algo: { name: "grpo", ...parts }, rollout: { compaction: "last-turns" } });
  const fixed = ["model.adapter", "algo.name", "algo.klCovCoef", "train.evalRows"];
  const paths = leaves(configJson(config)).filter((path) => !fixed.includes(path));
  expect(paths.length).toBe(54);
  const hashes = paths.map((path) => planHash(parseTrainConfig(edited(config, path))));
  hashes.push(
    planHash(parseTrainConfig({ ...least, model: { path: "models/tiny", adapter: "full" } })),
    planHash(parseTrainConfig({ ...least, algo: { name: "sft" } })),
    planHash(parseTrainConfig({ ...least, algo: { name: "sft" }, train: { evalRows: 8 } })),
    planHash(parseTrainConfig({ ...least, algo: { name: "grpo", ...parts, clipCovFraction: 0, klCovCoef: 1 } })),
  );
  expect(new Set([planHash(config), ...hashes]).size).toBe(hashes.length + 1);
});

test.each<[string, object, string]>([
  ["a misspelled key", { algo: { name: "grpo", klCoeff: 0.1 } }, "algo: unknown key klCoeff (did you mean klCoef?)"],
  ["a key of another section", { learningRate: 1e-5 }, "unknown key learningRate (did you mean optim.learningRate?)"],
  [
    "a key that is like none",
    { train: { wibble: 1 } },
    "train: unknown key wibble; known are steps, maxSampledTokens, microBatchTokens, checkpointEvery, evalEvery, evalTasks, evalRows, " +
      "keepCheckpoints, onCollapse, resetReferenceEvery, referenceDecay",
  ],
  [
    "a key of another algorithm",
    { algo: { name: "sft", groupSize: 8 } },
    "algo: key groupSize has no effect with this algorithm; leave it out",
  ],
  [
    "a key of the other adapter",
    { model: { path: "m", adapter: "full", rank: 8 } },
    "model: key rank has no effect with this adapter; leave it out",
  ],
  [
    "a group of one",
    { algo: { name: "grpo", groupSize: 1 } },
    "algo.groupSize: expected an integer of at least 2 and at most 4096, got 1; samples of one task; group baseline needs >= 2 samples",
  ],
  [
    "a truthy string",
    { algo: { name: "grpo", maskTruncated: "false" } },
    'algo.maskTruncated: expected true or false, got "false"; whether cut completions are left out of the loss',
  ],
  [
    "a boolean for a word",
    { algo: { name: "grpo", scale: true } },
    'algo.scale: expected "none" or "group-sample-std" or "group-population-std" or "batch-sample-std", got true; ' +
      "what centred rewards are divided by",
  ],
  [
    "a number as text",
    { optim: { learningRate: "1e-5" } },
    'optim.learningRate: expected a number above 0 and at most 1, got "1e-5"; step size of AdamW',
  ],
  [
    "not a number",
    { rollout: { temperature: Number.NaN } },
    "rollout.temperature: expected a number above 0 and at most 10, got NaN; sampling temperature",
  ],
  [
    "an unknown algorithm",
    { algo: { name: "nameless" } },
    `algo.name: expected ${algorithms.map(({ id }) => `"${id}"`).join(" or ")}, got "nameless"`,
  ],
  [
    "a critic beside a base that is itself trained",
    { model: { path: "m", adapter: "full" }, algo: { name: "ppo" } },
    'model.adapter: expected "lora" with algo.name ppo, whose critic is an adapter on the same base, got "full"; ' +
      'set model.adapter to "lora"',
  ],
  [
    "a line search beside a base that is itself trained",
    { model: { path: "m", adapter: "full" }, algo: { name: "trpo" } },
    'model.adapter: expected "lora" with algo.name trpo, whose line search is an adapter on the same base, got "full"; ' +
      'set model.adapter to "lora"',
  ],
  [
    "settings of a critic where there is none",
    { algo: { name: "grpo", valueClip: 0.2 } },
    "algo: key valueClip has no effect with this algorithm; leave it out",
  ],
  [
    "a warm-up of the critic that never ends",
    { algo: { name: "ppo", criticWarmupSteps: 100 } },
    "algo.criticWarmupSteps: expected fewer than train.steps (100), got 100; the policy would never be trained",
  ],
  [
    "KL twice",
    { algo: { name: "ppo", klCoef: 0.1 } },
    "algo.klCoef and algo.klRewardCoef: KL counts twice, as 0.1 in the loss and 0.05 in the reward; set one to 0",
  ],
  [
    "a reference that moves where there is none",
    { train: { resetReferenceEvery: 5 } },
    "train.resetReferenceEvery: expected 0 with algo.name grpo, which has no reference to move, got 5; " +
      "give the algorithm its KL term, or leave the key out",
  ],
  [
    "a reference that moves where examples are given",
    { algo: { name: "sft" }, train: { referenceDecay: 0.9 } },
    "train.referenceDecay: expected 0 with algo.name sft, which has no reference to move, got 0.9; leave it out",
  ],
  [
    "a token budget where nothing is sampled",
    { algo: { name: "sft" }, train: { maxSampledTokens: 1000 } },
    "train.maxSampledTokens: expected nothing with sft, which trains on given examples, got 1000; leave it out",
  ],
  [
    "a temperature where nothing is sampled",
    { algo: { name: "dpo" }, rollout: { temperature: 0.5 } },
    "rollout.temperature: expected nothing with dpo, which trains on given examples, got 0.5; leave it out",
  ],
  [
    "a moving reference of a loss whose reference stands",
    { algo: { name: "dpo" }, train: { referenceDecay: 0.9 } },
    "train.referenceDecay: expected 0 with algo.name dpo, whose reference is the opened policy, got 0.9; leave it out",
  ],
  [
    "a reference that moves in two ways",
    { algo: { name: "grpo", klCoef: 0.1 }, train: { referenceDecay: 0.9, resetReferenceEvery: 5 } },
    "train.resetReferenceEvery and train.referenceDecay: expected one of them to be 0, got 5 and 0.9; leave one of them out",
  ],
  [
    "a learning rate for a step that has none",
    { algo: { name: "trpo" }, optim: { learningRate: 1e-3 } },
    "optim.learningRate: expected nothing with algo.name trpo, which takes no AdamW step, got 0.001; leave it out",
  ],
  [
    "a combination that makes no sense",
    { algo: { name: "reinforce-plus-plus", klCoef: 0.1 } },
    "algo.klCoef and algo.klRewardCoef: KL counts twice, as 0.1 in the loss and 0.01 in the reward; set one to 0",
  ],
  [
    "an unknown adapter",
    { model: { path: "m", adapter: "qlora" } },
    'model.adapter: expected "lora" or "full", got "qlora" (did you mean lora?)',
  ],
  [
    "an algorithm that is mistyped",
    { algo: { name: "gprpo" } },
    `algo.name: expected ${algorithms.map(({ id }) => `"${id}"`).join(" or ")}, got "gprpo" (did you mean grpo?)`,
  ],
  [
    "a missing model",
    { model: {} },
    "model.path: expected a folder, a .gguf or .safetensors file, or a hub id, got nothing; which model to train",
  ],
  [
    "an environment without a name",
    { env: "arithmetic" },
    'env: expected an object with a "name" and JSON options, got "arithmetic"; which environment, with its own options',
  ],
  ["a section that is no object", { train: 5 }, "train: expected an object, got 5"],
  [
    "a name that leaves the folder",
    { name: "../x" },
    'name: expected a folder name of letters, digits, dot, dash and underscore, got "../x"; the run is kept in runs/<name>',
  ],
  [
    "a warm-up longer than the run",
    { optim: { warmupSteps: 100 } },
    "optim.warmupSteps: expected fewer than train.steps (100), got 100; the full learning rate would never be reached",
  ],
])("%s is refused by name", (_what, change, message) => {
  expect(() => parseTrainConfig({ ...least, ...change })).toThrow(new ConfigError(message));
});

test("several problems are told at once, on one line", () => {
  const wrong = { ...least, seed: -1, algo: { name: "grpo", clip: 0.2 } };
  expect(() => parseTrainConfig(wrong)).toThrow(
    /^2 problems in the configuration: \(1\) seed: expected .* got -1; the address of all randomness \(2\) algo: unknown key clip.*$/,
  );
});

test("the plan counts completions, tokens, passes and memory", () => {
  const config = parseTrainConfig({
    ...least,
    rollout: { tasksPerStep: 4, maxTokens: 100, maxTurns: 3 },
    train: { steps: 50, microBatchTokens: 1000 },
  });
  const made = plan(config, facts);
  expect(made).toMatchObject({ completionsPerStep: 32, tokensPerStep: 9600, tokensTotal: 480_000, steps: 50, epochs: 0.5, evalTasks: 50 });
  // 4 x 1e8; 12 x 1e6; 4 x 1000 x (10 x (1200 + 1200) + 3000); 4 x 32 x 300 x 10 x 64
  expect(made.memoryBytes).toEqual({ weights: 4e8, optimiser: 1.2e7, activations: 1.08e8, cache: 24_576_000, total: 5.2e8 });
  expect(planLines(config, made)[0]).toBe("each step   4 tasks x 8 samples = 32 completions, at most 9,600 sampled tokens");
  expect(() => plan(config, { ...facts, contextLength: 100 })).toThrow(
    "rollout.maxTokens: expected less than the model's context of 100, got 100; lower it",
  );
  expect(() => plan(config, { ...facts, trainTasks: 0 })).toThrow("env: train split: expected at least 1 task, got 0");
});
