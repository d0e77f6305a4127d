/**
 * Learning to reason with a verifiable answer: `npm run recipe:r1 [-- --model <model> --only <reasoning|answers>]`. Four stages with
 * reasoning, and the same four on the same tasks with answers alone. Writes docs/figures/r1.svg from the shipped model's runs.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { trainView } from "../../src/app/cli/ui/train-view.ts";
import { readOutcome, stageTable, writeFigure } from "./outcome.ts";
import { larger, shipped } from "./settings.ts";
import { runStages, type Variant } from "./stages.ts";

const variants: readonly Variant[] = [{ name: "reasoning", reasoning: true }, { name: "answers", reasoning: false }];

const [sources = ".", ...args] = process.argv.slice(2);
const { values } = parseArgs({ args, options: { model: { type: "string" }, only: { type: "string" } } });
const settings = values.model === undefined ? shipped : larger(values.model);
const folder = values.model === undefined ? "runs/r1" : join("runs", `r1-${values.model.replaceAll(/[^A-Za-z0-9]+/g, "-")}`);
const chosen = values.only === undefined ? variants : variants.filter(({ name }) => name === values.only);
if (chosen.length === 0) throw new Error(`--only: expected ${variants.map(({ name }) => name).join(" or ")}, got ${values.only}`);

for (const variant of chosen) {
  const watch = (stage: string) => {
    process.stderr.write(`\n${variant.name}, ${stage}\n`);
    return trainView({ stderr: process.stderr, environment: process.env }, false);
  };
  const seconds = await runStages({ variant, settings, folder, watch });
  for (const [stage, spent] of Object.entries(seconds)) process.stdout.write(`${variant.name} ${stage}: ${Math.round(spent)} s\n`);
}
const outcomes = await Promise.all(chosen.map((variant) => readOutcome(folder, variant)));
process.stdout.write(`${stageTable(outcomes)}\n`);
if (values.model === undefined && chosen === variants) writeFigure(outcomes, join(sources, "..", "..", "docs", "figures", "r1.svg"));
