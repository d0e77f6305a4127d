/**
 * Three ways of giving credit on twelve decisions with one reward at their end: `npm run recipe:credit [-- --tokens <n> --seeds <n>]`.
 * Outcome-only GRPO, GiGPO (turns of one state compared) and GRPO with a process reward model, each until it has sampled as many
 * tokens, those of the process reward model's labels included. Writes docs/figures/credit.svg.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { progress } from "../../src/app/cli/ui/progress.ts";
import { lock, lockOf } from "../../src/env/lock.ts";
import { integer, rng } from "../../src/random.ts";
import { figureSvg } from "../../src/train/report/figure.ts";
import { makeModel, type Say } from "./model.ts";
import { charts, table } from "./outcome.ts";
import { methods, runOne, type Method, type Run } from "./run.ts";

const [sources = ".", ...args] = process.argv.slice(2);
const options = {
  tokens: { type: "string", default: "80000" },
  seeds: { type: "string", default: "3" },
  only: { type: "string" },
} as const;
const { values } = parseArgs({ args, options });
const [tokens, seeds] = [Number(values.tokens), Number(values.seeds)];
const whole = [tokens, seeds].every((value) => Number.isInteger(value) && value > 0);
if (!whole) throw new Error("--tokens, --seeds: expected whole numbers above 0");
const all = Object.keys(methods) as Method[];
const chosen = all.filter((method) => values.only === undefined || methods[method].name === values.only);
if (chosen.length === 0) throw new Error(`--only: expected ${all.map((method) => methods[method].name).join(", ")}, got ${values.only}`);

const say = (content: string | undefined) => (content === undefined ? undefined : ({ role: "assistant", content } as const));
const right: Say = (task) => (_seen, { index }) => say(lockOf(task).right[index]);
const drawn: Say = (task, i) => (_seen, { index }) => say(String(1 + integer(rng(1, "answer", i), lockOf(task).choices, index)));

const root = join(sources, "..", "..");
const folder = join("runs", `credit-${tokens}`);
const results = join(folder, "results.json");
const model = join(folder, "model");
mkdirSync(folder, { recursive: true });
if (!existsSync(model)) {
  // Right answers to locks whose signs mean something else, so that it looks at signs; then answers that are drawn, so that it knows
  // nothing of these.
  const stages = [
    { env: lock({ seed: 1 }), speaker: right, steps: 60, learningRate: 1e-3 },
    { env: lock(), speaker: drawn, steps: 20, learningRate: 5e-4 },
  ];
  const losses = await makeModel(join(root, "models", "desk-1m"), model, { dialoguesPerStep: 12, stages });
  const chance = (Math.LN2 / 2).toFixed(3);
  process.stdout.write(`model: loss a token ${losses.map((loss) => loss.toFixed(3)).join(", then ")}; answers at random give ${chance}\n`);
}
const done: Run[] = existsSync(results) ? (JSON.parse(readFileSync(results, "utf8")) as Run[]) : [];
const bar = progress({ label: "credit", total: chosen.length * seeds });
let count = 0;
// All methods with one seed before the next seed: stopped early, the comparison is thinner but still a comparison.
for (let seed = 0; seed < seeds; seed++) {
  for (const method of chosen) {
    const kept = done.find((run) => run.method === method && run.seed === seed);
    const run = kept ?? (await runOne(method, seed, { model, folder, tokens, evalTasks: 200 }));
    if (kept === undefined) done.push(run);
    writeFileSync(results, `${JSON.stringify(done, null, 1)}\n`);
    bar.update(++count, { opened: run.opened });
  }
}
bar.end();
process.stdout.write(`${table(done)}\n`);
if (chosen.length === all.length) {
  const subtitle = `a lock of 12 dials, one reward at the end; the shipped model; mean, lowest and highest of ${seeds} seeds`;
  writeFileSync(join(root, "docs", "figures", "credit.svg"), `${figureSvg("Who gets the credit", subtitle, charts(done, tokens))}\n`);
}
