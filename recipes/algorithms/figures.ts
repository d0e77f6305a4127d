/** Figures and the table of the comparison. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { figureSvg } from "../../src/train/report/figure.ts";
import type { Chart, ChartSeries } from "../../src/train/report/chart.ts";
import type { Outcome } from "./run.ts";

type Results = Readonly<Record<string, readonly Outcome[]>>;

const titles: Readonly<Record<string, string>> = {
  "reward-model": "right order of held-out pairs",
  "process-reward-model": "held-out labels of turns, right side",
};

const percent = (value: number): string => `${(value * 100).toFixed(1)} %`;
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

export function figures(results: Results, { docs }: { readonly docs: string }): void {
  const folder = join(docs, "figures", "algorithms");
  mkdirSync(folder, { recursive: true });
  for (const [name, outcomes] of Object.entries(results)) {
    const charts = chartsOf(name, outcomes);
    const subtitle = `desk questions that need a sum; the shipped model, LoRA rank 16; ${outcomes.length} seeds`;
    writeFileSync(join(folder, `${name}.svg`), `${figureSvg(name, subtitle, charts)}\n`);
  }
  const page = join(docs, "algorithms", "README.md");
  const text = readFileSync(page, "utf8");
  const [before, after] = [/<!-- table -->/, /<!-- end of table -->/].map((mark) => mark.exec(text)!);
  writeFileSync(page, `${text.slice(0, before!.index + before![0].length)}\n\n${table(results)}\n\n${text.slice(after!.index)}`);
}

function chartsOf(name: string, outcomes: readonly Outcome[]): Chart[] {
  const lines = (form: ChartSeries["form"], of: (outcome: Outcome) => Outcome["rewards"]): ChartSeries[] =>
    outcomes.map((outcome) => ({ name: `seed ${outcome.seed}`, form, points: of(outcome).map(([x, y]) => ({ x, y })) }));
  const measured = titles[name] ?? "held-out success";
  const heldout: Chart = { title: measured, unit: "rate", series: lines("measured", (outcome) => outcome.heldout) };
  if (outcomes.every(({ rewards }) => rewards.length === 0)) return [heldout];
  return [{ title: "reward of a step", unit: "rate", series: lines("smoothed", (outcome) => outcome.rewards) }, heldout];
}

function table(results: Results): string {
  const rows = Object.entries(results).map(([name, outcomes]) => {
    const each = (of: (outcome: Outcome) => number): number[] => outcomes.map(of);
    const kls = outcomes.flatMap(({ kl }) => (kl === null ? [] : [kl]));
    const rises = outcomes.filter(({ before, after }) => after > before).length;
    const cells = [
      `[${name}](${name}.md)`, percent(mean(each(({ before }) => before))), percent(mean(each(({ after }) => after))),
      each(({ after }) => after).map((after) => (after * 100).toFixed(1)).join(", "), `${rises} of ${outcomes.length}`,
      kls.length === 0 ? "" : mean(kls).toFixed(3), String(Math.round(mean(each(({ seconds }) => seconds)))),
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return ["| algorithm | before | after | each seed, % | up | KL | seconds |", "|---|---|---|---|---|---|---|", ...rows].join("\n");
}
