/** What the stages came to, read from their runs: a table and a figure. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { wilson } from "../../src/train/evaluate/statistics.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { figureSvg } from "../../src/train/report/figure.ts";
import type { Chart, ChartSeries } from "../../src/train/report/chart.ts";
import { runName, stages, type Variant } from "./stages.ts";

/** One held-out evaluation; `step` counts the steps of all stages so far. */
interface Measured {
  readonly step: number;
  readonly label: string;
  readonly tasks: number;
  readonly success: number;
  readonly inForm: number;
  readonly characters: number;
  readonly trueSteps: number;
  readonly allSteps: number;
}

export interface Outcome {
  readonly variant: Variant;
  /** The base model, then the end of each stage. */
  readonly ends: readonly Measured[];
  readonly curve: readonly Measured[];
  /** Mean reward of each GRPO step. */
  readonly rewards: readonly { readonly x: number; readonly y: number }[];
}

export async function readOutcome(folder: string, variant: Variant): Promise<Outcome> {
  const ends: Measured[] = [];
  const curve: Measured[] = [];
  const rewards: { x: number; y: number }[] = [];
  let past = 0;
  for (const [place, stage] of stages.entries()) {
    const { metrics, ledger } = await readRun(join(folder, runName(variant, stage)));
    for (const row of metrics) {
      if (row["reward/mean"] !== undefined) rewards.push({ x: past + row.step, y: row["reward/mean"] });
      if (row["heldout/success"] === undefined) continue;
      // A supervised stage starts at the base model; only the first such start belongs to the curve.
      const [first, last] = [row.step === 0, row.step === ledger.length];
      const label = place === 0 && first ? "base" : stage;
      const measured: Measured = {
        step: past + row.step,
        label,
        tasks: row["heldout/tasks"]!,
        success: row["heldout/success"],
        inForm: row["heldout/inForm"]!,
        characters: row["heldout/reasoningCharacters"]!,
        trueSteps: row["heldout/trueSteps"]!,
        allSteps: row["heldout/allSteps"]!,
      };
      if (last || label === "base") ends.push(measured);
      if (!first || label === "base") curve.push(measured);
    }
    past += ledger.length;
  }
  return { variant, ends, curve, rewards };
}

const percent = (rate: number): string => (100 * rate).toFixed(1);
const interval = ({ success, tasks }: Measured) => wilson(Math.round(success * tasks), tasks);

/** Rows of the page's table. */
export function stageTable(outcomes: readonly Outcome[]): string {
  const rows = outcomes.flatMap(({ variant, ends }) =>
    ends.map((end) => {
      const { low, high } = interval(end);
      const cells = [
        variant.name, end.label, `${percent(end.success)} % (${percent(low)} to ${percent(high)} %)`, `${percent(end.inForm)} %`,
        ...(variant.reasoning ? [end.characters.toFixed(1), `${percent(end.allSteps)} %`, `${percent(end.trueSteps)} %`] : ["", "", ""]),
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  );
  const head =
    "| variant | after stage | held-out success (95 % interval) | in form | reasoning, characters | all steps written | true steps |";
  return [head, "|---|---|---|---|---|---|---|", ...rows].join("\n");
}

export function writeFigure(outcomes: readonly Outcome[], file: string): void {
  const line = (of: (outcome: Outcome) => ChartSeries["points"]): ChartSeries[] =>
    outcomes.map((outcome) => ({ name: outcome.variant.name, form: "measured", points: of(outcome) }));
  const xName = "step, all stages";
  const charts: Chart[] = [
    {
      title: "held-out success", unit: "rate", xName,
      series: line(({ curve }) => curve.map((at) => ({ x: at.step, y: at.success, ...interval(at) }))),
    },
    {
      title: "reward of a GRPO step", unit: "rate", xName,
      series: outcomes.map(({ variant, rewards }) => ({ name: variant.name, form: "smoothed", points: rewards })),
    },
    { title: "in form", unit: "rate", xName, series: line(({ curve }) => curve.map(({ step, inForm }) => ({ x: step, y: inForm }))) },
    {
      title: "reasoning, characters", unit: "number", xName,
      series: line(({ curve }) => curve.map(({ step, characters }) => ({ x: step, y: characters }))),
    },
  ];
  const ends = outcomes[0]!.ends.map(({ label, step }) => `${label} ${step}`).join(", ");
  const subtitle = `chains of sums; the shipped model; stages end at steps: ${ends}`;
  writeFileSync(file, `${figureSvg("Reasoning with a verifiable answer", subtitle, charts)}\n`);
}
