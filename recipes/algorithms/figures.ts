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
    between(join(docs, "algorithms", `${name}.md`), "run", section(name, outcomes));
  }
  between(join(docs, "algorithms", "README.md"), "table", table(results));
}

/** Puts `text` between the marks `name` and `end of name` of a page. */
function between(page: string, name: string, text: string): void {
  const whole = readFileSync(page, "utf8");
  const marks = new RegExp(`(<!-- ${name} -->\n)[^]*(<!-- end of ${name} -->)`);
  if (!marks.test(whole)) throw new Error(`${page}: expected the marks <!-- ${name} --> and <!-- end of ${name} -->, got none`);
  writeFileSync(page, whole.replace(marks, (_all, start: string, end: string) => `${start}\n${text}\n\n${end}`));
}

function section(name: string, outcomes: readonly Outcome[]): string {
  const measured = titles[name] ?? `success on ${outcomes[0]!.judged} held-out questions`;
  const before = percent(mean(outcomes.map((outcome) => outcome.before)));
  const after = percent(mean(outcomes.map((outcome) => outcome.after)));
  const each = outcomes.map((outcome) => percent(outcome.after)).join(", ");
  return [
    `\`npm run recipe:algorithms -- ${name}\`, ${outcomes.length} seeds: ${measured}, ${before} before`,
    `and ${after} after (each seed: ${each}).`,
    "The task, and all others on it: [README.md](README.md#all-of-them-on-one-task).",
    "",
    `![rewards and held-out success](../figures/algorithms/${name}.svg)`,
  ].join("\n");
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
