/** One line chart as SVG: axes, round ticks, legend, raw points behind a smoothed line, points with intervals. */
import { type Point, range, smooth, thin, tickLabels, ticks } from "./scale.ts";
import { element, escapeXml, text } from "./svg.ts";

export interface ChartSeries {
  readonly name: string;
  /** "smoothed": faint raw points and a line. "measured": markers with intervals, joined by a line. "band": a line in its interval. */
  readonly form: "smoothed" | "measured" | "band";
  readonly points: readonly (Point & { readonly low?: number; readonly high?: number })[];
}

export interface Chart {
  readonly title: string;
  readonly unit: "rate" | "number";
  /** What the horizontal axis counts or measures; "step" if left out. */
  readonly xName?: string;
  /** Ends of the horizontal axis, for charts that are read side by side; default: those of the data. */
  readonly xRange?: readonly [number, number];
  readonly series: readonly ChartSeries[];
}

/** Colours as SVG attribute values: hex for files, `var(--…)` for a page with light and dark. */
export interface Palette {
  readonly ink: string;
  readonly muted: string;
  readonly grid: string;
  readonly paper: string;
  readonly series: readonly string[];
}

interface ChartFrame {
  readonly width: number;
  readonly height: number;
  readonly palette: Palette;
}

const HEAD = 46;
const ROW = 18;
const BOTTOM = 36;
const RIGHT = 18;
/** Average advance of a character at 12 px in Lato and common system fonts. */
const ADVANCE = 6.3;
export const FONT = "Lato, system-ui, sans-serif";

interface Axes {
  readonly left: number;
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
}

/** The inside of an <svg> of the frame's size. */
export function chartBody(chart: Chart, frame: ChartFrame): string {
  const { width, height, palette } = frame;
  const points = chart.series.flatMap((series) => series.points);
  const xs = points.map(({ x }) => x);
  const ys = points.flatMap(({ y, low = y, high = y }) => [y, low, high]);
  const legend = legendPlaces(chart, frame);
  const top = HEAD + legend.rows * ROW;
  const bounds = range(ys, chart.unit);
  const yTicks = ticks(bounds.low, bounds.high);
  const labels = tickLabels(yTicks);
  const left = 20 + Math.max(...labels.map((label) => label.length)) * ADVANCE;
  const first = chart.xRange?.[0] ?? xs.reduce((a, b) => Math.min(a, b), Infinity);
  const last = chart.xRange?.[1] ?? xs.reduce((a, b) => Math.max(a, b), -Infinity);
  const [yLow, yHigh] = [yTicks[0] ?? 0, yTicks.at(-1) ?? 1];
  const axes: Axes = {
    left,
    x: (value) => left + (last > first ? (value - first) / (last - first) : 0.5) * (width - left - RIGHT),
    y: (value) => top + (yHigh > yLow ? (yHigh - value) / (yHigh - yLow) : 0.5) * (height - top - BOTTOM),
  };
  const lines = [
    text({ x: 16, y: 22, size: 15, weight: 700, fill: palette.ink }, chart.title),
    ...legend.places.map((place) => legendEntry(place, palette)),
  ];
  yTicks.forEach((tick, i) => {
    const y = axes.y(tick);
    lines.push(element("line", { x1: left, y1: y, x2: width - RIGHT, y2: y, stroke: palette.grid }));
    lines.push(text({ x: left - 8, y: y + 4, anchor: "end", fill: palette.muted }, labels[i] ?? ""));
  });
  lines.push(xAxis({ first, last, axes, name: chart.xName ?? "step", isWhole: xs.every(Number.isInteger) }, frame));
  const middle = { x: (left + width) / 2, y: height / 2, anchor: "middle", fill: palette.muted } as const;
  if (!ys.some(Number.isFinite)) lines.push(text(middle, "no values"));
  chart.series.forEach((series, i) => lines.push(drawSeries(series, { index: i, axes, palette })));
  return lines.join("\n");
}

export function chartSvg(chart: Chart, frame: ChartFrame): string {
  const { width, height } = frame;
  const described = element("title", {}, escapeXml(`${chart.title}: ${chart.series.map((series) => series.name).join(", ")}`));
  const attributes = { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, role: "img", "font-family": FONT };
  return element("svg", attributes, described + chartBody(chart, frame));
}

function xAxis(
  span: { readonly first: number; readonly last: number; readonly axes: Axes; readonly name: string; readonly isWhole: boolean },
  { width, height, palette }: ChartFrame,
): string {
  const { first, last, axes, name, isWhole } = span;
  if (!Number.isFinite(first)) return "";
  // Where what is counted is whole, as steps are, so are the ticks; those outside the data are dropped.
  const all = ticks(first, last, 6);
  const places = (isWhole ? [...new Set(all.map(Math.round))] : all).filter((place) => place >= first && place <= last);
  const labels = isWhole ? places.map((step) => step.toLocaleString("en-US").replaceAll(",", " ")) : tickLabels(places);
  const base = height - BOTTOM;
  const marks = places.map((place, i) => {
    const x = axes.x(place);
    const label = labels[i]!;
    const mark = element("line", { x1: x, y1: base, x2: x, y2: base + 4, stroke: palette.muted });
    return mark + text({ x, y: base + 18, anchor: "middle", fill: palette.muted }, label);
  });
  const line = element("line", { x1: axes.left, y1: base, x2: width - RIGHT, y2: base, stroke: palette.muted });
  return [line, ...marks, text({ x: width - RIGHT, y: base + 32, anchor: "end", fill: palette.muted, size: 11 }, name)].join("");
}

interface LegendPlace {
  readonly series: ChartSeries;
  readonly index: number;
  readonly x: number;
  readonly row: number;
}

/** Beside the title if there is room, otherwise in rows below it; one series whose name its title says needs none. */
function legendPlaces(chart: Chart, { width }: ChartFrame): { readonly places: readonly LegendPlace[]; readonly rows: number } {
  const [only, second] = chart.series;
  const said = only === undefined || (only.form !== "measured" && chart.title.toLowerCase().includes(only.name.toLowerCase()));
  if (said && second === undefined) return { places: [], rows: 0 };
  const entries = chart.series.map((series, index) => ({ series, index, wide: legendName(series).length * ADVANCE + 44 }));
  const total = entries.reduce((sum, { wide }) => sum + wide, 0);
  const beside = 30 + chart.title.length * 8.2 + total < width - RIGHT;
  let [x, row] = beside ? [width - RIGHT - total + 16, 0] : [16, 1];
  const places = entries.map(({ series, index, wide }): LegendPlace => {
    if (x > 16 && x + wide - 16 > width - RIGHT) [x, row] = [16, row + 1];
    const place = { series, index, x, row };
    x += wide;
    return place;
  });
  return { places, rows: row };
}

function legendEntry({ series, index, x, row }: LegendPlace, palette: Palette): string {
  const colour = colourOf(palette, index);
  const y = 18 + row * ROW;
  const stroke = { stroke: colour, "stroke-width": 2, "stroke-dasharray": dash(palette, index) };
  const line = element("line", { x1: x, y1: y, x2: x + 20, y2: y, ...stroke });
  const mark = series.form === "measured" ? element("circle", { cx: x + 10, cy: y, r: 3.5, fill: colour }) : "";
  return line + mark + text({ x: x + 25, y: y + 4, fill: palette.muted }, legendName(series));
}

function legendName({ name }: ChartSeries): string {
  return name.length > 28 ? `${name.slice(0, 27)}…` : name;
}

/** Past the last colour they begin again, dashed. */
function dash(palette: Palette, index: number): string | undefined {
  return index < palette.series.length ? undefined : "5 4";
}

function drawSeries(
  series: ChartSeries,
  { index, axes, palette }: { readonly index: number; readonly axes: Axes; readonly palette: Palette },
): string {
  const colour = colourOf(palette, index);
  const known = series.points.filter(({ y }) => Number.isFinite(y));
  const place = ({ x, y }: Point): string => `${round(axes.x(x))},${round(axes.y(y))}`;
  const stroke = { fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round", "stroke-linecap": "round" };
  const line = (points: readonly Point[]): string =>
    element("polyline", { points: points.map(place).join(" "), ...stroke, "stroke-dasharray": dash(palette, index) });
  if (series.form === "smoothed") {
    // Dots are strokes of no length with round ends: one element for all of them.
    const d = thin(known, 1500)
      .map((point) => `M${place(point)}h0`)
      .join("");
    const dots = element("path", { d, ...stroke, "stroke-opacity": 0.3, "stroke-width": known.length > 200 ? 2.6 : 4 });
    return dots + line(thin(smooth(known), 600));
  }
  if (series.form === "band") {
    const upper = known.map(({ x, y, high = y }) => ({ x, y: high }));
    const edge = [...upper, ...known.toReversed().map(({ x, y, low = y }) => ({ x, y: low }))];
    return element("polygon", { points: edge.map(place).join(" "), fill: colour, "fill-opacity": "0.18" }) + line(known);
  }
  const whiskers = known.flatMap(({ x: step, low, high }) => {
    if (low === undefined || high === undefined) return [];
    const [x, top, bottom] = [round(axes.x(step)), round(axes.y(high)), round(axes.y(low))];
    const d = `M${x - 4} ${top}h8M${x} ${top}V${bottom}M${x - 4} ${bottom}h8`;
    return [element("path", { d, stroke: colour, "stroke-opacity": 0.6, fill: "none" })];
  });
  const marker = { r: 4, fill: colour, stroke: palette.paper, "stroke-width": 1.5 };
  const dots = known.map((point) => element("circle", { cx: axes.x(point.x), cy: axes.y(point.y), ...marker }));
  return [line(known), ...whiskers, ...dots].join("");
}

function colourOf(palette: Palette, index: number): string {
  return palette.series[index % palette.series.length] ?? palette.ink;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
