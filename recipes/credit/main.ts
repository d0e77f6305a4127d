/**
 * Three ways of giving credit on one task of twelve decisions with one reward at the end: `npm run recipe:credit`. Outcome-only GRPO,
 * GiGPO (turns beside their state) and GRPO with a process reward model, three seeds each, held against each other by sampled tokens;
 * those that the process reward model's labels cost are its own.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { lock } from "../../src/env/lock.ts";
import type { AttachedModels } from "../../src/train/attach.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { turnScorer } from "../../src/train/process/turn-scorer.ts";
import { train } from "../../src/train/train.ts";
import { curveFigure, summary, type Curve } from "./curves.ts";
import { makeModel, type Stage } from "./model.ts";
import { judge, makeJudge, type MadeJudge } from "./process.ts";

const [, to = "runs/credit", seedCount = "3", stepCount = "36", only = ""] = process.argv.slice(2);
const seeds = Array.from({ length: Number(seedCount) }, (_, seed) => seed);
const steps = Number(stepCount);
const env = { name: "lock", tries: 6 } as const;
const folder = resolve(to);
const model = join(folder, "model");
const limits = { maxTokens: 4, maxTurns: 19, concurrency: 128, deadlineSeconds: 600 };
const rollout = { ...limits, tasksPerStep: 16 };
const groupSize = 8;
const learningRate = 2e-3;
const labelling = { episodes: 48, completions: 2, epochs: 15, learningRate: 3e-3, limits };
const started = performance.now();

const say = (line: string): void => void process.stdout.write(`${line} (${Math.round((performance.now() - started) / 1000)} s)\n`);

const methods = {
  "outcome only (GRPO)": { name: "grpo", groupSize },
  "turns beside their state (GiGPO)": { name: "gigpo", groupSize },
  "process reward (PRM)": { name: "process-grpo", groupSize, stepReward: "difference", baseline: "state", gamma: 0 },
} as const satisfies Record<string, TrainConfigInput["algo"]>;
type Method = keyof typeof methods;

/** The sampled tokens and rewards of one run, step by step; `before` was spent on labels. */
async function run(method: Method, seed: number): Promise<Curve> {
  const algo = methods[method];
  const name = `${algo.name}-${seed}`;
  const made = algo.name === "process-grpo" ? await judgeOf(seed) : undefined;
  const config: TrainConfigInput = {
    name, seed, model: { path: model, adapter: "full" }, env, algo, rollout, optim: { learningRate },
    train: { steps, evalEvery: steps, evalTasks: 200, checkpointEvery: steps, microBatchTokens: 8192 },
  };
  await using judging = made === undefined ? undefined : await openJudge(seed);
  const { evaluation } = await train(config, {
    runsFolder: folder,
    ...(judging === undefined ? {} : { attach: () => Promise.resolve({ turnScorer: judging.turnScorer }) }),
  });
  const { metrics } = await readRun(join(folder, name));
  let tokens = made?.sampledTokens ?? 0;
  const points = metrics.flatMap((row) => {
    const [reward, length] = [row["reward/mean"], row["length/mean"]];
    if (typeof reward !== "number" || typeof length !== "number") return [];
    const at = tokens;
    tokens += length * groupSize * rollout.tasksPerStep;
    return [{ tokens: at, reward }];
  });
  say(`${name}: held-out success ${evaluation?.success.toFixed(3) ?? "unknown"} after ${Math.round(tokens)} sampled tokens`);
  return { method, seed, points, heldOut: evaluation?.success ?? NaN, labels: made?.sampledTokens ?? 0 };
}

const judgeFolder = (seed: number): string => join(folder, `judge-${seed}`);

async function judgeOf(seed: number): Promise<MadeJudge> {
  const made = await makeJudge(model, judgeFolder(seed), { env: lock(env), seed, ...labelling });
  const [first, last] = made.loss.map((loss) => loss.toFixed(3));
  say(`seed ${seed}: ${made.labelled} turns labelled for ${made.sampledTokens} tokens, loss ${first} to ${last}`);
  return made;
}

/** The judge on a base of its own: the policy's is trained. */
async function openJudge(seed: number): Promise<AsyncDisposable & Required<Pick<AttachedModels, "turnScorer">>> {
  const policy = await openPolicy(model, { microBatchTokens: 8192 });
  await policy.engine.loadAdapter(judge.adapter, judgeFolder(seed));
  const scorer = turnScorer(judge);
  return { turnScorer: (trajectories) => scorer(trajectories, { policy }), [Symbol.asyncDispose]: () => policy[Symbol.asyncDispose]() };
}

mkdirSync(folder, { recursive: true });
const stages: readonly Stage[] = [
  { env: lock({ ...env, seed: 1 }), steps: 300, learningRate: 4e-3, known: 0.8, tokens: "all" },
  { env: lock(env), steps: 30, learningRate: 1e-3, known: 0, tokens: "answers" },
];
if (!existsSync(model)) {
const losses = await makeModel(model, { seed: 0, dialoguesPerStep: 16, stages });
if (only === "nothing") say(losses.filter((_, i) => i % 20 === 19).map((x) => x.toFixed(3)).join(" "));
say(`model: loss ${losses.at(-1)!.toFixed(4)} a token; two answers at random give ${(Math.LN2 / 2).toFixed(4)}`);
}
const curves: Curve[] = [];
const chosen = (Object.keys(methods) as Method[]).filter((method) => method.includes(only));
for (const seed of seeds) for (const method of chosen) curves.push(await run(method, seed));
const svg = curveFigure(curves);
mkdirSync("docs/figures", { recursive: true });
writeFileSync(join(folder, "credit.svg"), svg);
writeFileSync(join(folder, "summary.md"), summary(curves));
process.stdout.write(summary(curves));
say(`figure: ${join(folder, "credit.svg")}`);
