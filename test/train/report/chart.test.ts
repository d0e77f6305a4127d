import { expect, test } from "vitest";
import { type Chart, chartSvg } from "../../../src/train/report/chart.ts";
import { escapeXml } from "../../../src/train/report/svg.ts";
import { LIGHT, figureSvg, svgToPng } from "../../../src/train/report/figure.ts";
import { panels } from "../../../src/train/report/panels.ts";
import { range, smooth, thin, tickLabels, ticks } from "../../../src/train/report/scale.ts";
import { toColumns } from "../../../src/train/record/metrics.ts";

test("ticks are round and cover the range; labels tell them apart", () => {
  expect(ticks(0, 1)).toEqual([0, 0.2, 0.4, expect.closeTo(0.6), 0.8, 1]);
  expect(ticks(1, 120, 6)).toEqual([0, 20, 40, 60, 80, 100, 120]);
  expect(ticks(3, 3)).toEqual([3]);
  expect(tickLabels(ticks(-0.05, 0.1))).toEqual(["−0.05", "0.00", "0.05", "0.10"]);
  expect(tickLabels([0, 0.02, 0.04])).toEqual(["0.00", "0.02", "0.04"]);
  expect(tickLabels([-1, 0, 1])).toEqual(["−1", "0", "1"]);
  expect(tickLabels([0, 1e-5, 2e-5])).toEqual(["0", "1e−5", "2e−5"]);
  expect(tickLabels([0, 200_000])).toEqual(["0", "2e5"]);
  expect(tickLabels([1e6, 1.5e6, 2e6])).toEqual(["1.0e6", "1.5e6", "2.0e6"]);
  expect(tickLabels([-5e-5, 0, 5e-5, 1e-4])).toEqual(["−0.5e−4", "0", "0.5e−4", "1.0e−4"]);
});

test("rates fill 0 to 1, numbers their own range, and zero is a floor for what is not negative", () => {
  expect(range([0.1, 0.9], "rate")).toEqual({ low: 0, high: 1 });
  expect(range([0.5, 0.5], "number")).toEqual({ low: expect.closeTo(0.45), high: 0.55 });
  expect(range([0, 10, Number.NaN], "number")).toEqual({ low: 0, high: 10.5 });
  // Small rates have their own range; a sum of float32 parts may pass 1; 100 to 101 is a change of 1 %, drawn on 5 % of 101.
  expect(range([0.02, 0.5], "rate")).toEqual({ low: 0, high: expect.closeTo(0.524) });
  expect(range([0, 1.0000002], "rate")).toEqual({ low: 0, high: 1 });
  expect(range([0.96, 1], "rate")).toEqual({ low: expect.closeTo(0.955), high: 1 });
  expect(range([100, 101], "number")).toEqual({ low: expect.closeTo(97.975), high: expect.closeTo(103.025) });
  expect(range([-10, 10], "number")).toEqual({ low: -11, high: 11 });
  expect(range([Number.NaN], "number")).toEqual({ low: 0, high: 1 });
});

test("smoothing keeps a constant and the middle of a line; few points stay, and gaps are left out", () => {
  const points = Array.from({ length: 41 }, (_, x) => ({ x, y: 2 * x }));
  expect(smooth(points)[20]?.y).toBeCloseTo(40, 12);
  expect(smooth(points.map(({ x }) => ({ x, y: 3 }))).every(({ y }) => Math.abs(y - 3) < 1e-12)).toBe(true);
  // A spike of 1 with deviation 41 / 40: its share is 1 / sum of exp(-d^2 / 2 s^2) over d = -4..4.
  const weights = [-4, -3, -2, -1, 0, 1, 2, 3, 4].map((d) => Math.exp(-0.5 * (d / 1.025) ** 2));
  const spike = points.map(({ x }) => ({ x, y: x === 20 ? 1 : 0 }));
  expect(smooth(spike)[20]?.y).toBeCloseTo(1 / weights.reduce((a, b) => a + b), 12);
  const few = [
    { x: 0, y: 1 },
    { x: 1, y: Number.NaN },
    { x: 2, y: 5 },
  ];
  expect(smooth(few)).toEqual([
    { x: 0, y: 1 },
    { x: 2, y: 5 },
  ]);
  expect(thin([0, 1, 2, 3, 4, 5], 2)).toEqual([0, 3, 5]);
});

const titles = (charts: readonly Chart[]): unknown[] =>
  charts.map(({ title, series }) => [title, series.map(({ name }) => name)]);

test("every metric is drawn once, held-out success with its Wilson interval", () => {
  const rows = [
    { step: 0, "heldout/success": 0.5, "heldout/tasks": 10 },
    { step: 1, "reward/mean": 0.2, kl: 0.1, loss: Number.NaN, "wind/north": 3, "wind/south": 4, fracZeroStd: 0.5 },
    { step: 1, "kl/old": 1e-9, speed: 7 },
  ];
  const { result, running } = panels(toColumns(rows));
  expect(titles([...result, ...running])).toEqual([
    ["Reward and held-out success", ["held-out success", "reward (train)"]],
    ["Loss", ["loss (train)"]],
    ["KL to the reference (nats a token)", ["kl"]],
    ["Groups and rollouts without signal", ["groups of equal rewards"]],
    ["wind", ["north", "south"]],
    ["Other measures", ["speed"]],
    ["KL to the policy that sampled (k3)", ["before the update"]],
  ]);
  expect(result[0]?.series[0]?.points).toEqual([{ x: 0, y: 0.5, low: expect.closeTo(0.2366, 4), high: expect.closeTo(0.7634, 4) }]);
});

test("what stood still is named and not drawn, except the reward; a twin is drawn once; six lines are the most of a chart", () => {
  const parts = Object.fromEntries(["a", "b", "c", "d", "e", "f", "g"].map((name, i) => [`reward/${name}`, i + 1]));
  const rows = [1, 2].map((step) => ({
    step, "reward/mean": 0, truncated: 0, learningRate: 5e-4, "length/mean": step, "length/finished": step, gradNorm: Number.NaN,
    ...Object.fromEntries(Object.entries(parts).map(([key, value]) => [key, value * step])),
  }));
  const { result, running, notes } = panels(toColumns(rows));
  expect(titles([...result, ...running])).toEqual([
    ["Reward and held-out success", ["reward (train)"]],
    ["Reward parts", ["a", "b", "c", "d", "e", "f"]],
    ["Sampled tokens of a rollout", ["mean"]],
    ["Gradient norm", ["policy"]],
  ]);
  expect(notes).toEqual([
    "Not drawn, 0 throughout: truncated",
    "Not drawn, the same throughout: learningRate 0.0005",
    "Not drawn, equal to another line: length/finished (as length/mean)",
    "In the page's table only: reward/g",
  ]);
  expect(result.every(({ xRange }) => xRange?.[0] === 1 && xRange[1] === 2)).toBe(true);
});

test("an accuracy is drawn in its interval, and the bounds are no lines of their own", () => {
  const heldout = { "heldout/accuracy": 1, "heldout/accuracyLow": 0.8, "heldout/accuracyHigh": 1, "heldout/examples": 16 };
  const { result } = panels(toColumns([{ step: 0, ...heldout }]));
  expect(titles(result)).toEqual([["Preferences ranked rightly", ["held out"]]]);
  expect(result[0]?.series[0]?.points).toEqual([{ x: 0, y: 1, low: 0.8, high: 1 }]);
});

test("notes stand below the charts, long ones on several lines", () => {
  const svg = figureSvg("run", "", [], [`0 throughout: ${"measure, ".repeat(40)}`]);
  const below = [...svg.matchAll(/<text[^>]*y="(\d+)"[^>]*font-size="12"[^>]*>([^<]*)</g)].map(([, y, line]) => [Number(y), line!.length]);
  // 374 characters in lines of at most 180, the first one 14 below the cards (72 + 300 + 16).
  expect(below.map(([y]) => y)).toEqual([402, 420, 438]);
  expect(below.every(([, length]) => length! <= 180 + 4)).toBe(true);
});

test("a point is drawn where its axes say", () => {
  const points = [
    { x: 0, y: 0 },
    { x: 10, y: 1 },
  ];
  const svg = chartSvg(
    { title: "Rate", unit: "rate", series: [{ name: "success", form: "measured", points }] },
    { width: 400, height: 300, palette: LIGHT },
  );
  // Left edge: 20 + 3 characters ("0.0") x 6.3 = 38.9; right: 400 - 18; bottom: 300 - 36; top: 46.
  expect(svg).toContain('<polyline points="38.9,264 382,46"');
});

test("a band is the area between its bounds, with the line in it", () => {
  const points = [
    { x: 0, y: 0.5, low: 0, high: 1 },
    { x: 10, y: 1, low: 0.5, high: 1 },
  ];
  const svg = chartSvg(
    { title: "Rate", unit: "rate", series: [{ name: "success", form: "band", points }] },
    { width: 400, height: 300, palette: LIGHT },
  );
  // Axes as above; along the upper bound and back along the lower one. 0.5 is at (264 + 46) / 2.
  expect(svg).toContain('<polygon points="38.9,46 382,46 382,155 38.9,264"');
  expect(svg).toContain('<polyline points="38.9,155 382,46"');
});

test("ticks of x are whole where all that is drawn is", () => {
  const frame = { width: 400, height: 300, palette: LIGHT };
  const chartOf = (...xs: number[]) =>
    ({ title: "Gold", unit: "number", series: [{ name: "gold", form: "smoothed", points: xs.map((x) => ({ x, y: x })) }] }) as const;
  const below = (svg: string): string[] => [...svg.matchAll(/y="(?:282|296)"[^>]*>([^<]*)</g)].map((match) => match[1]!);
  expect(below(chartSvg(chartOf(0, 1), frame))).toEqual(["0", "1", "step"]);
  const parts = below(chartSvg({ ...chartOf(0, 0.5, 1), xName: "root of KL" }, frame));
  expect(parts).toEqual(["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "root of KL"]);
});

test("a chart without finite values says so, and no NaN reaches the SVG", () => {
  const svg = figureSvg("run <1>", "a & b", [
    { title: "Loss", unit: "number", series: [{ name: "loss", form: "smoothed", points: [{ x: 1, y: Number.NaN }] }] },
  ]);
  expect(svg).toContain("no values");
  expect(svg).toContain("run &lt;1&gt;");
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  expect(escapeXml('<a href="x">\u0000&\'')).toBe("&lt;a href=&quot;x&quot;&gt;\ufffd&amp;&#39;");
});

test("the PNG is 1200 pixels wide, with drawn text", async () => {
  const blank = await svgToPng(figureSvg("", "", []));
  const titled = await svgToPng(figureSvg("A title", "and a subtitle", []));
  const header = Buffer.from(titled);
  expect(header.subarray(1, 4).toString()).toBe("PNG");
  expect([header.readUInt32BE(16), header.readUInt32BE(20)]).toEqual([1200, 388]);
  expect(titled.length).toBeGreaterThan(blank.length + 1000);
});
