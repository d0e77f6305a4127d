/**
 * Progress of long work on standard error. A terminal gets one line that is redrawn; anything else one plain line a step;
 * with `--json` one JSON object a step. Standard output stays free for results.
 */
import { encodeMetrics } from "../../../json.ts";
import { bar, spark } from "./spark.ts";
import { type Terminal, painter, wantsColour, width, withoutColour } from "./colour.ts";

interface ProgressStream extends Terminal {
  write(text: string): unknown;
}

export interface ProgressOptions {
  readonly label: string;
  readonly total: number;
  readonly stream?: ProgressStream;
  readonly json?: boolean;
  readonly environment?: NodeJS.ProcessEnv;
  /** Milliseconds; given by tests. */
  readonly now?: () => number;
  /** Where a resumed run continues, so that the rate counts only what this process did. */
  readonly start?: number;
  /** How amounts are written, for example as sizes; default: as plain numbers. */
  readonly show?: (amount: number) => string;
}

/** Named numbers to show beside the bar, in order: `{ reward: 0.5, kl: 0.01 }`. */
type ProgressValues = Readonly<Record<string, number>>;

export interface Progress {
  /** `done` of `total` is finished. `rate` (a second) counts instead of the average since the start. */
  update(done: number, values?: ProgressValues, rate?: number): void;
  /** Prints a line above the bar. */
  note(text: string): void;
  /** Leaves the last line standing. */
  end(): void;
}

/** A log file gets a line at most this often, and always the last. */
const quietMilliseconds = 2000;

type Mode = "bar" | "lines" | "json";

export function progress(options: ProgressOptions): Progress {
  const { label, total, stream = process.stderr, json = false, environment = process.env, now = Date.now, start = 0, show } = options;
  const mode: Mode = json ? "json" : stream.isTTY === true && environment.TERM !== "dumb" ? "bar" : "lines";
  const paint = painter(mode === "bar" && wantsColour(stream, environment));
  const began = now();
  const history: number[] = [];
  let drawn = "";
  let told = Number.NEGATIVE_INFINITY;

  const draw = (line: string): void => {
    // Carriage return, text, erase to the end of the line: no flicker, and nothing of a longer line is left.
    stream.write(`\r${line}\u001b[K`);
    drawn = line;
  };
  const update = (done: number, values: ProgressValues = {}, measured?: number): void => {
    const seconds = (now() - began) / 1000;
    const rate = measured ?? (seconds > 0 && done > start ? (done - start) / seconds : 0);
    const eta = rate > 0 ? (total - done) / rate : Number.POSITIVE_INFINITY;
    const first = Object.values(values)[0];
    if (first !== undefined) history.push(first);
    if (mode === "json") {
      const known = Number.isFinite(eta) ? eta : null;
      return void stream.write(`${jsonLine({ event: "progress", label, done, total, seconds, rate, eta: known }, values)}\n`);
    }
    const figures = Object.entries(values).map(([name, value]) => `${paint(name, "dim")} ${shortNumber(value)}`);
    const pace = `${show === undefined ? shortRate(rate) : `${show(rate)}/s`}  ${paint("ETA", "dim")} ${duration(eta)}`;
    const count = show === undefined ? `${String(done).padStart(String(total).length)}/${total}` : `${show(done)} of ${show(total)}`;
    if (mode === "lines" && done < total && now() - told < quietMilliseconds) return;
    told = now();
    if (mode === "lines") return void stream.write(`${[label, count, ...figures, pace].join("  ")}\n`);
    const drawing = paint(bar(total === 0 ? 1 : done / total, 20), "cyan");
    draw(fit([paint(label, "bold"), drawing, count, ...figures, pace, paint(spark(history, 16), "green")], stream.columns ?? 80));
  };
  const note = (text: string): void => {
    if (mode === "json") return void stream.write(`${JSON.stringify({ event: "note", label, text })}\n`);
    if (mode === "lines" || drawn === "") return void stream.write(`${text}\n`);
    stream.write(`\r\u001b[K${text}\n${drawn}`);
  };
  const end = (): void => {
    if (mode === "bar" && drawn !== "") stream.write("\n");
    drawn = "";
  };
  return { update, note, end };
}

/** As many parts as fit in one line, from the left; a line that wraps could not be redrawn. */
function fit(parts: readonly string[], columns: number): string {
  let line = "";
  for (const part of parts.filter((text) => text !== "")) {
    const longer = line === "" ? part : `${line}  ${part}`;
    if (width(longer) >= columns) break;
    line = longer;
  }
  return line === "" ? withoutColour(parts[0] ?? "").slice(0, Math.max(0, columns - 1)) : line;
}

function jsonLine(fixed: Record<string, unknown>, values: ProgressValues): string {
  return encodeMetrics({ ...fixed, values });
}

/** About three significant digits; integers as they are. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1);
  if (size >= 100) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : size >= 1 ? value.toFixed(2) : value.toFixed(3);
}

function shortRate(rate: number): string {
  return rate >= 1 || rate === 0 ? `${shortNumber(rate)}/s` : `${shortNumber(1 / rate)} s each`;
}

/** `1:05` or `2:03:04`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "--:--";
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (part: number): string => String(part).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}
