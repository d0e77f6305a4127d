/** Curves of several seeds over sampled tokens: their mean with the range of the seeds, as a figure and as a table. */
import { chartSvg, type Chart } from "../../src/train/report/chart.ts";
import { LIGHT } from "../../src/train/report/figure.ts";

export interface Curve {
  readonly method: string;
  readonly seed: number;
  /** Mean reward of a step, at the tokens that had been sampled before it. */
  readonly points: readonly { readonly tokens: number; readonly reward: number }[];
  readonly heldOut: number;
  /** Tokens sampled for labels, before the first step. */
  readonly labels: number;
}

/** Tokens that every run reached: the budget that is compared. */
const budgetOf = (curves: readonly Curve[]): number => Math.min(...curves.map(({ points }) => points.at(-1)!.tokens));

/** Mean reward of the steps within a quarter bin of `tokens`; the nearest step where there is none. */
function rewardAt({ points }: Curve, tokens: number, width: number): number {
  const near = points.filter((point) => Math.abs(point.tokens - tokens) <= width);
  if (near.length > 0) return near.reduce((sum, { reward }) => sum + reward, 0) / near.length;
  return points.reduce((best, point) => (Math.abs(point.tokens - tokens) < Math.abs(best.tokens - tokens) ? point : best)).reward;
}

const methodsOf = (curves: readonly Curve[]): string[] => [...new Set(curves.map(({ method }) => method))];

export function curveFigure(curves: readonly Curve[]): string {
  const budget = budgetOf(curves);
  const bins = 24;
  const series = methodsOf(curves).map((method): Chart["series"][number] => {
    const own = curves.filter((curve) => curve.method === method);
    const first = Math.max(...own.map(({ labels }) => labels));
    const places = Array.from({ length: bins + 1 }, (_, i) => (budget * i) / bins).filter((tokens) => tokens >= first);
    const points = places.map((tokens) => {
      const rewards = own.map((curve) => rewardAt(curve, tokens, budget / bins));
      const y = rewards.reduce((a, b) => a + b, 0) / rewards.length;
      return { x: tokens / 1000, y, low: Math.min(...rewards), high: Math.max(...rewards) };
    });
    return { name: method, form: "band", points };
  });
  const chart: Chart = { title: "Locks opened", unit: "rate", xName: "thousand sampled tokens", series };
  return chartSvg(chart, { width: 900, height: 420, palette: LIGHT });
}

/** A Markdown table: what each method reaches within the budget, and how soon half of all locks open. */
export function summary(curves: readonly Curve[]): string {
  const budget = budgetOf(curves);
  const span = (values: readonly number[], digits: number): string =>
    `${(values.reduce((a, b) => a + b, 0) / values.length).toFixed(digits)} (${values.map((value) => value.toFixed(digits)).join(", ")})`;
  const lines = methodsOf(curves).map((method) => {
    const own = curves.filter((curve) => curve.method === method);
    const end = own.map((curve) => rewardAt(curve, budget, budget / 12));
    const half = own.map(({ points }) => {
      const reached = points.findIndex((_point, i) => i >= 2 && points.slice(i - 2, i + 1).every(({ reward }) => reward >= 0.5));
      return reached < 0 ? "not" : `${Math.round(points[reached]!.tokens / 1000)}k`;
    });
    const labels = own.reduce((sum, curve) => sum + curve.labels, 0) / own.length;
    const heldOut = span(own.map((curve) => curve.heldOut), 2);
    return `| ${method} | ${span(end, 2)} | ${half.join(", ")} | ${heldOut} | ${Math.round(labels / 1000)}k |`;
  });
  return [
    `Locks opened at ${Math.round(budget / 1000)} thousand sampled tokens, mean and each seed.`,
    "",
    "| method | opened at the budget | half opened at | held-out after all steps | tokens for labels |",
    "|---|---|---|---|---|",
    ...lines,
    "",
  ].join("\n");
}
