/** Axis arithmetic of the charts: round ticks, number labels, smoothing. */

/** Round ticks that cover [low, high]: steps of 1, 2 or 5 times a power of ten, about `count` of them. */
export function ticks(low: number, high: number, count = 5): number[] {
  if (!(high > low)) return [low];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) ?? 10) * power;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/** Labels with as many digits as tell neighbours apart; very large and very small ones with one power of ten for all. */
export function tickLabels(values: readonly number[]): string[] {
  const step = Math.abs((values[1] ?? 1) - (values[0] ?? 0)) || 1;
  const size = Math.max(...values.map(Math.abs));
  const exponent = size >= 1e5 || (size > 0 && size < 1e-3) ? Math.floor(Math.log10(size) + 1e-9) : 0;
  const digits = Math.max(0, exponent - Math.floor(Math.log10(step) + 1e-9));
  return values.map((value) => {
    if (exponent === 0) return minus((Math.abs(value) < step / 1e6 ? 0 : value).toFixed(digits));
    return Math.abs(value) < step / 1e6 ? "0" : minus(`${(value / 10 ** exponent).toFixed(digits)}e${exponent}`);
  });
}

function minus(text: string): string {
  return text.replaceAll("-", "−");
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/**
 * Gaussian kernel average, centred so that it does not lag behind, with a standard deviation of 1/40 of the points (at least
 * one); fewer than 20 points stay as they are. Values that are not finite are left out.
 */
export function smooth(points: readonly Point[]): Point[] {
  const known = points.filter(({ y }) => Number.isFinite(y));
  if (known.length < 20) return known;
  const deviation = Math.max(1, known.length / 40);
  const reach = Math.ceil(3 * deviation);
  const kernel = Array.from({ length: reach + 1 }, (_, distance) => Math.exp(-0.5 * (distance / deviation) ** 2));
  return known.map(({ x }, i) => {
    let [sum, weight] = [0, 0];
    for (let j = Math.max(0, i - reach); j <= Math.min(known.length - 1, i + reach); j++) {
      const share = kernel[Math.abs(i - j)] ?? 0;
      sum += share * (known[j]?.y ?? 0);
      weight += share;
    }
    return { x, y: sum / weight };
  });
}

/** At most `count` points, evenly taken, always with the last. */
export function thin<T>(points: readonly T[], count: number): T[] {
  const stride = Math.ceil(points.length / count);
  return stride <= 1 ? [...points] : points.filter((_, i) => i % stride === 0 || i === points.length - 1);
}

/** Rates that float32 sums put together may pass 1 by this. */
const rounding = 1e-5;

/**
 * [low, high] of the y axis. Rates get 0 to 1 if they use much of it; others their own range with a little room, and not so little
 * that a change of a few per cent looks like a fall.
 */
export function range(values: readonly number[], unit: "rate" | "number"): { readonly low: number; readonly high: number } {
  const known = values.filter(Number.isFinite);
  if (known.length === 0) return { low: 0, high: 1 };
  const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const isRate = unit === "rate" && low >= 0 && high <= 1 + rounding;
  if (isRate && high - low > 0.3 && high > 0.6) return { low: 0, high: 1 };
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high > low ? Math.max(0.05 * (high - low), (0.05 * size - (high - low)) / 2) : Math.max(size * 0.1, 1e-6);
  if (isRate) return { low: Math.max(0, low - room), high: Math.min(1, high + room) };
  // Zero is a floor for what cannot be negative.
  return { low: low >= 0 ? Math.max(0, low - room) : low - room, high: high + room };
}
