/**
 * The shipped model learns a game: `npm run recipe:games -- house` or `boat-race` (`--seeds <n>`, default 2). It is first taught to
 * play badly on played dialogues, then trained with GRPO; stopped and started again, it goes on where it was. Writes
 * docs/figures/<game>.svg; `--draw` draws what is there of a run, without training.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readRun } from "../../src/train/record/read-run.ts";
import { figureSvg } from "../../src/train/report/figure.ts";
import type { Chart, ChartSeries } from "../../src/train/report/chart.ts";
import { train } from "../../src/train/train.ts";
import { makeModel } from "../credit/model.ts";
import { games, type Game } from "./games.ts";

const [sources = ".", ...args] = process.argv.slice(2);
const options = { seeds: { type: "string", default: "2" }, draw: { type: "boolean", default: false } } as const;
const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
const name = positionals[0] === "boat-race" || positionals[0] === "house" ? positionals[0] : null;
const seeds = Number(values.seeds);
if (name === null || !(Number.isInteger(seeds) && seeds > 0)) {
  throw new Error(`recipe: expected ${Object.keys(games).join(" or ")} and --seeds above 0, got ${args.join(" ") || "nothing"}`);
}
const game: Game = games[name];
const root = join(sources, "..", "..");
const folder = join("runs", `games-${name}`);
const model = join(folder, "model");
mkdirSync(folder, { recursive: true });
if (!values.draw && !existsSync(model)) {
  const stages = [{ env: game.env, speaker: game.speaker, steps: 80, learningRate: 1e-3 }];
  const [loss] = await makeModel(join(root, "models", "desk-1m"), model, { dialoguesPerStep: 16, stages });
  process.stdout.write(`model: loss ${loss!.toFixed(3)} a token\n`);
}

type Rows = Awaited<ReturnType<typeof readRun>>["metrics"];
const runs: Rows[] = [];
for (let seed = 0; seed < seeds; seed++) {
  const id = `seed-${seed}`;
  const started = performance.now();
  if (!values.draw) await learn(id, seed);
  const { metrics } = await readRun(join(folder, id));
  runs.push(metrics);
  const ends = Object.values(game.charts).map(({ title, lines }) => `${title} ${endsOf(metrics, lines["held-out"]!).join(" to ")}`);
  process.stdout.write(`seed ${seed}, ${((performance.now() - started) / 1000).toFixed(0)} s: ${ends.join("; ")}\n`);
}
const charts = game.charts.map(({ lines, ...chart }): Chart => ({
  ...chart, series: runs.flatMap((rows, seed) => linesOf(rows, lines, seed)),
}));
writeFileSync(join(root, "docs", "figures", `${name}.svg`), `${figureSvg(game.title, game.subtitle, charts)}\n`);

async function learn(id: string, seed: number): Promise<void> {
  const { learningRate, steps, named, maxTurns } = game;
  await train(
    {
      name: id,
      seed,
      env: named,
      model: { path: model, adapter: "full" },
      algo: { name: "grpo", groupSize: 8 },
      rollout: { maxTokens: 4, maxTurns, tasksPerStep: 8, concurrency: 128, deadlineSeconds: 600 },
      optim: { learningRate, warmupSteps: 4 },
      train: { steps, evalEvery: 10, evalTasks: 100, checkpointEvery: 10, microBatchTokens: 8192 },
    },
    { runsFolder: folder, resume: existsSync(join(folder, id, "config.json")) },
  );
}

function pointsOf(rows: Rows, key: string): { readonly x: number; readonly y: number }[] {
  return rows.flatMap((row) => (row[key] === undefined ? [] : [{ x: row.step, y: row[key] }]));
}

function linesOf(rows: Rows, lines: Readonly<Record<string, string>>, seed: number): ChartSeries[] {
  return Object.entries(lines).map(([line, key]) => ({
    name: `${line}, seed ${seed}`,
    form: key.startsWith("heldout/") ? "measured" : "smoothed",
    points: pointsOf(rows, key),
  }));
}

function endsOf(rows: Rows, key: string): string[] {
  const points = pointsOf(rows, key);
  return [points[0], points.at(-1)].map((point) => point?.y.toFixed(3) ?? "none");
}
