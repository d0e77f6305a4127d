/** Runs of equal cost side by side: a table, and curves over sampled tokens with the spread of the seeds. */
import { wilson } from "../../src/train/evaluate/statistics.ts";
import type { Chart, ChartSeries } from "../../src/train/report/chart.ts";

export interface Run {
  readonly name: string;
  readonly seed: number;
  /** Groups that a step trains on. */
  readonly groups: number;
  /** `tokens` are all that were sampled until the end of the step. */
  readonly steps: readonly { readonly step: number; readonly tokens: number; readonly reward: number; readonly replaced: number }[];
  readonly heldout: readonly { readonly tokens: number; readonly success: number; readonly tasks: number }[];
  /** KL(policy || opened policy), nats a token, on held-out tasks. */
  readonly kl: number;
  readonly seconds: number;
}

interface Point {
  readonly x: number;
  readonly y: number;
}

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** A curve's value at x: linear between its points, the last one's after them. */
export function at(curve: readonly Point[], x: number): number {
  const next = curve.findIndex((point) => point.x >= x);
  if (next <= 0) return curve.at(next)!.y;
  const [a, b] = [curve[next - 1]!, curve[next]!];
  return a.y + ((b.y - a.y) * (x - a.x)) / (b.x - a.x);
}

/** Mean reward of the steps that end in each of `count` equal parts of the budget, at its middle. Parts without a step are left out. */
export function rewardCurve(
  { steps }: Pick<Run, "steps">,
  { budget, count }: { readonly budget: number; readonly count: number },
): Point[] {
  return Array.from({ length: count }, (_, part) => {
    // The step that spends the last token ends behind the budget and belongs to the last part.
    const inside = steps.filter(({ tokens }) => Math.min(count - 1, Math.floor(((tokens - 1) / budget) * count)) === part);
    return { x: ((part + 0.5) / count) * budget, y: mean(inside.map(({ reward }) => reward)) };
  }).filter(({ y }) => Number.isFinite(y));
}

/** Mean of the seeds at each x, with the lowest and the highest seed. */
export function spread(curves: readonly (readonly Point[])[], xs: readonly number[]): ChartSeries["points"] {
  return xs.map((x) => {
    const values = curves.map((curve) => at(curve, x));
    return { x, y: mean(values), low: Math.min(...values), high: Math.max(...values) };
  });
}

export function charts(runs: readonly Run[], budget: number): Chart[] {
  const names = [...new Set(runs.map(({ name }) => name))];
  const parts = 8;
  const lines = (of: (run: Run) => readonly Point[], xs: readonly number[]): ChartSeries[] =>
    names.map((name) => ({ name, form: "measured", points: spread(runs.filter((run) => run.name === name).map(of), xs) }));
  const marks = Array.from({ length: parts + 1 }, (_, i) => (i / parts) * budget);
  const middles = Array.from({ length: parts }, (_, i) => ((i + 0.5) / parts) * budget);
  const shared = { unit: "rate", xName: "sampled tokens" } as const;
  const successes = ({ heldout }: Run): Point[] => heldout.map(({ tokens, success }) => ({ x: tokens, y: success }));
  return [
    { ...shared, title: "held-out success", series: lines(successes, marks) },
    { ...shared, title: "training reward", series: lines((run) => rewardCurve(run, { budget, count: parts }), middles) },
  ];
}

const percent = (rate: number): string => (100 * rate).toFixed(1);

/** One row an algorithm: means over its seeds; the interval is of all seeds' held-out answers together. */
export function table(runs: readonly Run[]): string {
  const rows = [...new Set(runs.map(({ name }) => name))].map((name) => {
    const own = runs.filter((run) => run.name === name);
    const of = (value: (run: Run) => number): number => mean(own.map(value));
    const ends = own.map(({ heldout }) => heldout.at(-1)!);
    const tasks = ends.reduce((sum, end) => sum + end.tasks, 0);
    const right = Math.round(ends.reduce((sum, end) => sum + end.success * end.tasks, 0));
    const { low, high } = wilson(right, tasks);
    const replaced = of(({ steps, groups }) => {
      const thrown = steps.reduce((sum, step) => sum + step.replaced, 0);
      return thrown / (thrown + steps.length * groups);
    });
    const cells = [
      `[${name}](algorithms/${name}.md)`, of(({ steps }) => steps.length).toFixed(0), of(({ steps }) => steps.at(-1)!.tokens).toFixed(0),
      `${percent(replaced)} %`, `${percent(of(({ heldout }) => heldout[0]!.success))} %`,
      `${percent(right / tasks)} % (${percent(low)} to ${percent(high)} %)`, ends.map(({ success }) => percent(success)).join(", "),
      of(({ kl }) => kl).toFixed(3), of(({ seconds }) => seconds).toFixed(0),
    ];
    return `| ${cells.join(" | ")} |`;
  });
  const head = "| algorithm | steps | sampled tokens | groups thrown away | before | after (95 % interval) | each seed, % | KL | seconds |";
  return [head, "|---|---|---|---|---|---|---|---|---|", ...rows].join("\n");
}
