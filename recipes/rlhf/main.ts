/**
 * RLHF where the truth is known: `npm run recipe:rlhf [-- --model <model>] [-- --folder <runs>]`. Fine-tuning, a reward model from noisy
 * labels, PPO against it, DPO on the same pairs; a hidden gold score judges held-out answers. Then the same with a reward model that
 * learned from verified outcomes. Writes docs/figures/rlhf.svg and the tables of docs/rlhf-recipe.md for the shipped model.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { trainView } from "../../src/app/cli/ui/train-view.ts";
import { tables, writeFigure, writeTables, type Results } from "./figures.ts";
import { curvesOf, secondsOf } from "./measure.ts";
import { large, small } from "./setup.ts";
import { direct, foundation, single, type Place } from "./stages.ts";
import { stopOf } from "./stop.ts";
import { verified } from "./verified.ts";

const shipped = "models/desk-1m";
const [sources = ".", ...rest] = process.argv.slice(2);
const options = { model: { type: "string", default: shipped }, folder: { type: "string", default: "runs/rlhf" } } as const;
const { model: base, folder } = parseArgs({ args: rest, options }).values;
const isShipped = base === shipped;
const names: string[] = [];

function onRun(name: string): void {
  names.push(name);
  view.end();
  view = newView();
  process.stderr.write(`${name}\n`);
}

const newView = () => trainView({ stderr: process.stderr, environment: process.env }, false);
let view = newView();
const observer: Place["observer"] = {
  onPlan: (...told) => view.observer.onPlan(...told),
  onStep: (...told) => view.observer.onStep?.(...told),
  onEvaluation: (...told) => view.observer.onEvaluation?.(...told),
  onNote: (...told) => view.observer.onNote?.(...told),
};
const place: Place = { base, folder, setup: isShipped ? small : large, observer, onRun };
mkdirSync(folder, { recursive: true });
const start = await foundation(place);
const runs = {
  "no KL": await single(place, start, { name: "no-kl", kl: 0 }),
  "KL in the reward": await single(place, start, { name: "kl", kl: place.setup.kl }),
  "cautious ensemble": join(folder, "helpful-policy"),
  DPO: await direct(place, start, { name: "dpo", beta: 0.1 }),
};
view.end();
process.stderr.write("measuring the held-out answers of all runs\n");
const measured = await curvesOf(Object.values(runs), start);
const curves = Object.fromEntries(Object.keys(runs).map((name, i) => [name, measured[i]!]));
const stops = { others: stopOf(curves["no KL"]!, "others"), labels: stopOf(curves["no KL"]!, "wins") };
await write({ curves, stops, seconds: await secondsOfAll() });
if (isShipped) await write({ curves, stops, verified: await verified(place), seconds: await secondsOfAll() });
view.end();
process.stdout.write(readFileSync(join(folder, "results.md"), "utf8"));

async function secondsOfAll(): Promise<Results["seconds"]> {
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await secondsOf(join(folder, name))] as const)));
}

/** Numbers, tables and figure; once before the last stage and once after it. */
async function write(results: Results): Promise<void> {
  writeFileSync(join(folder, "results.json"), `${JSON.stringify(results, null, 1)}\n`);
  writeFileSync(join(folder, "results.md"), `${tables(results)}\n`);
  const docs = join(sources, "..", "..", "docs");
  writeFigure(results, isShipped ? join(docs, "figures", "rlhf.svg") : join(folder, "figure.svg"));
  if (isShipped) writeTables(results, join(docs, "rlhf-recipe.md"));
}
