/** Makes the shipped model: `npm run recipe:desk [-- <folder>]`. The same sources on the same kind of processor give the same bytes. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { progress } from "../../src/app/cli/ui/progress.ts";
import { makeDeskModel, type RecipeOptions } from "./train.ts";

const [sources = ".", folder = "models/desk-1m"] = process.argv.slice(2);

const options: RecipeOptions = {
  seed: 0,
  chatTemplate: readFileSync(join(sources, "chat-template.jinja"), "utf8"),
  vocabulary: 1024,
  layers: 4,
  hidden: 128,
  intermediate: 384,
  heads: 4,
  kvHeads: 4,
  dialogues: 20_000,
  copy: { steps: 650, tokensPerStep: 2304, learningRate: 2e-3, schedule: "constant" },
  mix: { steps: 800, tokensPerStep: 3072, learningRate: 2e-3, schedule: "cosine", right: 0.9 },
  warmup: { steps: 250, tokensPerStep: 3072, learningRate: 1e-3, schedule: "cosine", right: 0.7 },
};

const total = options.copy.steps + options.mix.steps + options.warmup.steps;
const bar = progress({ label: "desk-1m", total });
let done = 0;
await makeDeskModel(resolve(folder), options, ({ stage, step, steps, loss }) => {
  bar.update(++done, { loss });
  if (step === steps) bar.note(`${stage}: ${steps} steps, loss ${loss.toFixed(4)}`);
});
bar.end();
const bytes = readFileSync(join(folder, "model.safetensors"));
process.stdout.write(
  `${join(folder, "model.safetensors")}  ${bytes.length} bytes  sha256 ${createHash("sha256").update(bytes).digest("hex")}\n`,
);
