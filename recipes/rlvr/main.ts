/**
 * Four ways to learn from a verifiable reward at equal cost: `npm run recipe:rlvr [-- --tokens <n> --only <name>]`. GRPO, RLOO, DAPO and
 * Dr. GRPO from the same weights on the same task, three seeds each; a run ends when it has sampled its tokens, those of groups that DAPO
 * throws away included. Writes docs/figures/rlvr.svg.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { progress } from "../../src/app/cli/ui/progress.ts";
import { figureSvg } from "../../src/train/report/figure.ts";
import { charts, table, type Run } from "./outcome.ts";
import { runOne } from "./run.ts";

const algorithms = ["grpo", "rloo", "dapo", "dr-grpo"];
const seeds = [0, 1, 2];

const [sources = ".", ...args] = process.argv.slice(2);
const { values } = parseArgs({ args, options: { tokens: { type: "string", default: "40000" }, only: { type: "string" } } });
const tokens = Number(values.tokens);
if (!Number.isInteger(tokens) || tokens < 1) throw new Error(`--tokens: expected a whole number of sampled tokens, got ${values.tokens}`);
const chosen = values.only === undefined ? algorithms : algorithms.filter((name) => name === values.only);
if (chosen.length === 0) throw new Error(`--only: expected ${algorithms.join(", ")}, got ${values.only}`);

const folder = join("runs", `rlvr-${tokens}`);
const results = join(folder, "results.json");
mkdirSync(folder, { recursive: true });
const done: Run[] = existsSync(results) ? (JSON.parse(readFileSync(results, "utf8")) as Run[]) : [];
const bar = progress({ label: "rlvr", total: chosen.length * seeds.length });
let count = 0;
// All algorithms with one seed before the next seed: stopped early, the comparison is thinner but still a comparison.
for (const seed of seeds) {
  for (const name of chosen) {
    const kept = done.find((run) => run.name === name && run.seed === seed);
    const run = kept ?? (await runOne(name, seed, { folder, tokens, evalTasks: 200 }));
    if (kept === undefined) done.push(run);
    writeFileSync(results, `${JSON.stringify(done, null, 1)}\n`);
    bar.update(++count, { success: run.heldout.at(-1)!.success });
  }
}
bar.end();
process.stdout.write(`${table(done)}\n`);
if (chosen === algorithms) {
  const subtitle = "desk questions that need a sum; the shipped model, LoRA rank 16; mean, lowest and highest of 3 seeds";
  const figure = figureSvg("Equal sampled tokens", subtitle, charts(done, tokens));
  writeFileSync(join(sources, "..", "..", "docs", "figures", "rlvr.svg"), `${figure}\n`);
}
