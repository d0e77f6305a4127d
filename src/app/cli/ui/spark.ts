/** Small drawings made of block characters: sparklines, bars, and the before-and-after line. */
import type { Paint } from "./colour.ts";

const STEPS = "▁▂▃▄▅▆▇█";
const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** A sparkline of at most `columns` characters; more values are averaged in equal parts. A value that is not finite is a gap. */
export function spark(values: readonly number[], columns = 24): string {
  const parts = Math.min(columns, values.length);
  const points = Array.from({ length: parts }, (_, i) => {
    const part = values
      .slice(Math.floor((i * values.length) / parts), Math.floor(((i + 1) * values.length) / parts))
      .filter(Number.isFinite);
    return part.length === 0 ? Number.NaN : part.reduce((a, b) => a + b, 0) / part.length;
  });
  const known = points.filter(Number.isFinite);
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  return points.map((point) => (Number.isFinite(point) ? STEPS[span === 0 ? 3 : Math.round(((point - low) / span) * 7)] : " ")).join("");
}

/** A bar for a fraction in [0, 1], `columns` wide, exact to an eighth of a character. */
export function bar(fraction: number, columns = 16, empty = "░"): string {
  const eighths = Math.round(Math.min(1, Math.max(0, Number.isFinite(fraction) ? fraction : 0)) * columns * 8);
  const full = Math.floor(eighths / 8);
  const part = EIGHTHS[eighths % 8] ?? "";
  return "█".repeat(full) + part + empty.repeat(columns - full - (part === "" ? 0 : 1));
}

function percent(fraction: number): string {
  return Number.isFinite(fraction) ? `${(100 * fraction).toFixed(1)} %` : "?";
}

/** `held-out success  48.0 %  ████████░░░░░░░░  →  91.2 %  ███████████████░`, for rates in [0, 1]. */
export function beforeAfter(label: string, rates: { readonly before: number; readonly after: number }, paint: Paint): string {
  const better = rates.after > rates.before ? "green" : rates.after < rates.before ? "red" : "yellow";
  const show = (rate: number): string => percent(rate).padStart(7);
  const [from, to] = [`${show(rates.before)}  ${paint(bar(rates.before), "dim")}`, paint(show(rates.after), "bold")];
  return `${label}  ${from}  →  ${to}  ${paint(bar(rates.after), better)}`;
}
