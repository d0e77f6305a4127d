/** Counters and gauges in Prometheus' text format. */

type Labels = Readonly<Record<string, string | number>>;

/** Upper bounds of request times, in seconds. */
const bounds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;

const help = {
  flywheel_requests_total: "Requests answered, by route and status.",
  flywheel_rejected_total: "Requests refused before they were read, by reason.",
  flywheel_cancelled_total: "Requests whose client left before the end.",
  flywheel_prompt_tokens_total: "Tokens of prompts.",
  flywheel_sampled_tokens_total: "Tokens sampled.",
  flywheel_weight_swaps_total: "Exchanges of the served weights.",
  flywheel_history_changed_total: "Requests of a session whose history was not what had been sampled: each began a new row.",
  flywheel_sessions_lost_total: "Sessions that could not be written to disk.",
  flywheel_sessions_evicted_total: "Idle sessions that made room for others, by where they went.",
} as const;

type CounterName = keyof typeof help;

export class Metrics {
  readonly #counters = new Map<CounterName, Map<string, number>>();
  readonly #times = { counts: new Array<number>(bounds.length + 1).fill(0), sum: 0, count: 0 };
  readonly #gauges = new Map<string, { readonly help: string; readonly read: () => number }>();

  add(name: CounterName, labels: Labels = {}, amount = 1): void {
    const series = this.#counters.get(name) ?? new Map<string, number>();
    const key = labelText(labels);
    series.set(key, (series.get(key) ?? 0) + amount);
    this.#counters.set(name, series);
  }

  /** A value that is read when the metrics are. */
  gauge(name: string, text: string, read: () => number): void {
    this.#gauges.set(name, { help: text, read });
  }

  observeSeconds(seconds: number): void {
    const place = bounds.findIndex((bound) => seconds <= bound);
    this.#times.counts[place < 0 ? bounds.length : place]!++;
    this.#times.sum += seconds;
    this.#times.count++;
  }

  text(): string {
    const lines: string[] = [];
    const head = (name: string, type: string, about: string): number => lines.push(`# HELP ${name} ${about}`, `# TYPE ${name} ${type}`);
    for (const [name, about] of Object.entries(help)) {
      head(name, "counter", about);
      const series = this.#counters.get(name as CounterName);
      if (series === undefined) lines.push(`${name} 0`);
      for (const [labels, value] of series ?? []) lines.push(`${name}${labels} ${value}`);
    }
    for (const [name, { help: about, read }] of this.#gauges) {
      head(name, "gauge", about);
      lines.push(`${name} ${read()}`);
    }
    head("flywheel_request_seconds", "histogram", "Time from request to the end of the answer.");
    let below = 0;
    this.#times.counts.forEach((count, i) => {
      below += count;
      lines.push(`flywheel_request_seconds_bucket${labelText({ le: bounds[i] ?? "+Inf" })} ${below}`);
    });
    lines.push(`flywheel_request_seconds_sum ${this.#times.sum}`, `flywheel_request_seconds_count ${this.#times.count}`);
    return `${lines.join("\n")}\n`;
  }
}

function labelText(labels: Labels): string {
  const escape = (value: string): string => value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${escape(String(value))}"`);
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}
