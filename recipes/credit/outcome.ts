/** Runs of equal cost side by side: learning curves over sampled tokens with the range of the seeds, and a table. */
import type { Chart, ChartSeries } from "../../src/train/report/chart.ts";
import { rewardCurve, spread } from "../rlvr/outcome.ts";
import type { Run } from "./run.ts";

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
const methodsOf = (runs: readonly Run[]): string[] => [...new Set(runs.map(({ method }) => method))];

/** Right answers among all, and locks opened, over the tokens that were sampled; labels come first and shift a curve to the right. */
export function charts(runs: readonly Run[], budget: number): Chart[] {
  const count = 12;
  const lines = (of: (step: Run["steps"][number]) => number): ChartSeries[] =>
    methodsOf(runs).map((method) => {
      const own = runs.filter((run) => run.method === method);
      const drawn = own.map(({ steps }) => ({ steps: steps.map((step, i) => ({ ...step, step: i, replaced: 0, reward: of(step) })) }));
      const curves = drawn.map((run) => rewardCurve(run, { budget, count }));
      const first = Math.max(...curves.map((curve) => curve[0]!.x));
      const places = Array.from({ length: count }, (_, part) => ((part + 0.5) / count) * budget).filter((x) => x >= first);
      return { name: method, form: "band", points: spread(curves, places).map((point) => ({ ...point, x: point.x / 1000 })) };
    });
  const shared = { unit: "rate", xName: "thousand sampled tokens" } as const;
  return [
    { ...shared, title: "Locks opened", series: lines(({ reward }) => reward) },
    { ...shared, title: "Right answers", series: lines(({ dialsSet, turns }) => dialsSet / turns) },
  ];
}

/** Tokens after which three steps in a row opened half of all locks. */
function halfAt({ steps }: Run): string {
  const reached = steps.findIndex((_step, i) => i >= 2 && steps.slice(i - 2, i + 1).every(({ reward }) => reward >= 0.5));
  return reached < 0 ? "not" : `${Math.round(steps[reached]!.tokens / 1000)}k`;
}

export function table(runs: readonly Run[]): string {
  const percent = (rate: number): string => (100 * rate).toFixed(1);
  const rows = methodsOf(runs).map((method) => {
    const own = runs.filter((run) => run.method === method);
    const of = (value: (run: Run) => number): number => mean(own.map(value));
    const cells = [
      method,
      of(({ steps }) => steps.length).toFixed(0),
      `${(of(({ labels }) => labels) / 1000).toFixed(0)}k`,
      `${percent(of(({ before }) => before))} %`,
      `${percent(of(({ opened }) => opened))} %`,
      own.map(({ opened }) => percent(opened)).join(", "),
      own.map(halfAt).join(", "),
      of(({ seconds }) => seconds).toFixed(0),
    ];
    return `| ${cells.join(" | ")} |`;
  });
  const head = "| credit | steps | tokens for labels | opened before | after | each seed, % | half opened at | seconds |";
  return [head, "|---|---|---|---|---|---|---|---|", ...rows].join("\n");
}
