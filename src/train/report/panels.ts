/** Which metrics go into which chart. Every metric is in exactly one, so nothing that a run recorded is hidden. */
import { wilson } from "../evaluate/statistics.ts";
import type { MetricColumns } from "../record/metrics.ts";
import type { Chart, ChartSeries } from "./chart.ts";

/** The held-out success rate and the number of tasks it was taken over; together they give the interval. */
export const HELD_OUT = "heldout/success";
const HELD_OUT_TASKS = "heldout/tasks";

interface PanelSpec {
  readonly title: string;
  readonly unit: Chart["unit"];
  readonly keys: RegExp;
}

const PANELS: readonly PanelSpec[] = [
  { title: "Reward and held-out success", unit: "rate", keys: /^(reward|reward\/mean|heldout\/success)$/ },
  { title: "Reward parts", unit: "rate", keys: /^(reward|heldout)\// },
  { title: "KL to the reference", unit: "number", keys: /^kl(\/|$)/i },
  { title: "Loss", unit: "number", keys: /^loss(\/|$)/i },
  { title: "Entropy", unit: "number", keys: /^entropy(\/|$)/i },
  { title: "Response length (tokens)", unit: "number", keys: /^(length|response)/i },
  { title: "Tool use", unit: "number", keys: /^tool/i },
  { title: "Gradient norm", unit: "number", keys: /^grad/i },
  { title: "Groups without signal", unit: "rate", keys: /^(frac)?zeroStd|^fracZero|^truncated|^unscorable|^signal\//i },
  { title: "Ratio and clipping", unit: "number", keys: /^(ratio|clip)/i },
  { title: "Speed", unit: "number", keys: /^(tokensPerSecond|speed)/i },
  { title: "Time (seconds)", unit: "number", keys: /^(seconds|time)/i },
];

/** Charts in reading order; those without values are left out. Keys that no panel names form panels by their first word. */
export function panels({ steps, columns }: MetricColumns): Chart[] {
  const left = new Set([...columns.keys()].filter((key) => key !== HELD_OUT_TASKS));
  const take = (spec: PanelSpec): Chart => {
    const keys = [...left].filter((key) => spec.keys.test(key));
    for (const key of keys) left.delete(key);
    return { title: spec.title, unit: spec.unit, series: keys.map((key) => seriesOf(key, { steps, columns })) };
  };
  const named = PANELS.map(take);
  const others = new Map<string, string[]>();
  for (const key of left) {
    const head = key.split("/")[0] ?? key;
    others.set(head, [...(others.get(head) ?? []), key]);
  }
  const rest = [...others].map(([head, keys]): Chart => ({
    title: head,
    unit: "number",
    series: keys.map((key) => seriesOf(key, { steps, columns })),
  }));
  return [...named, ...rest].filter((chart) => chart.series.length > 0);
}

function seriesOf(key: string, { steps, columns }: MetricColumns): ChartSeries {
  const values = columns.get(key) ?? [];
  const tasks = columns.get(HELD_OUT_TASKS) ?? [];
  const points = steps.flatMap((x, i) => {
    const y = values[i];
    if (y === undefined) return [];
    const trials = tasks[i];
    if (key !== HELD_OUT || trials === undefined || !Number.isFinite(y)) return [{ x, y }];
    return [{ x, y, ...wilson(Math.round(y * trials), trials) }];
  });
  return { name: seriesName(key), form: key.startsWith("heldout/") ? "measured" : "smoothed", points };
}

function seriesName(key: string): string {
  if (key === "reward" || key === "reward/mean") return "reward (train)";
  if (key === HELD_OUT) return "held-out success";
  return key;
}
