/**
 * Every algorithm on one task, from the same weights and with the same budget of samples: `npm run recipe:algorithms [-- names]`.
 * Writes one figure an algorithm and the table of docs/algorithms/README.md. Three seeds each; examples for the offline ones are the
 * opened policy's own answers, graded.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { algorithms } from "../../src/algo/registry.ts";
import { progress } from "../../src/app/cli/ui/progress.ts";
import { figures } from "./figures.ts";
import { runOne, type Outcome } from "./run.ts";
import { setups } from "./setups.ts";

const [sources = ".", ...names] = process.argv.slice(2);
const results = "runs/algorithms/results.json";
const seeds = [0, 1, 2];

const known = Object.keys(setups);
const missing = algorithms.map(({ id }) => id).filter((id) => !known.includes(id));
if (missing.length > 0) process.stderr.write(`not compared: ${missing.join(", ")}\n`);
const chosen = names.length === 0 ? known : names;
mkdirSync("runs/algorithms", { recursive: true });
const done: Record<string, readonly Outcome[]> = existsSync(results) ? (JSON.parse(readFileSync(results, "utf8")) as typeof done) : {};
const bar = progress({ label: "algorithms", total: chosen.length * seeds.length });
let count = 0;
// All algorithms with one seed before the next seed: stopped early, the comparison is thinner but still a comparison.
for (const seed of seeds) {
  for (const name of chosen) {
    const outcome = await runOne(name, seed);
    done[name] = [...(done[name] ?? []).filter((other) => other.seed !== seed), outcome];
    writeFileSync(results, `${JSON.stringify(done, null, 1)}\n`);
    bar.update(++count, { before: outcome.before, after: outcome.after });
  }
}
bar.end();
figures(done, { docs: join(sources, "..", "..", "docs") });
