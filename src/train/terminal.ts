/** What a run says to a person who only called `train`: one plain line a step. */
import { amount, visible } from "../errors.ts";
import type { TrainOptions } from "./train.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { planLines } from "./plan.ts";
import type { MetricsRow } from "./record/metrics.ts";

interface TerminalOptions {
  /** Where lines go; default standard error. */
  readonly stream?: { write(text: string): unknown };
}

/** An observer that writes the plan, each step, each evaluation and each note as a line. `train` takes it by itself at a terminal. */
export function terminal({ stream = process.stderr }: TerminalOptions = {}): NonNullable<TrainOptions["observer"]> {
  const say = (text: string): void => void stream.write(`${visible(text)}\n`);
  let total = 0;
  let read = Number.NEGATIVE_INFINITY;
  let last = performance.now();
  return {
    onRead: (done, bytes) => {
      if (performance.now() - read < 2000) return;
      read = performance.now();
      say(`reading data: ${Math.round((100 * done) / bytes)} %`);
    },
    onPlan: (config, plan) => {
      total = config.train.steps;
      for (const line of planLines(config, plan)) say(line);
      last = performance.now();
    },
    onStep: (row) => {
      const seconds = (performance.now() - last) / 1000;
      last = performance.now();
      const figures = Object.entries(stepFigures(row)).map(([name, value]) => `${name} ${value.toPrecision(3)}`);
      say([`step ${row.step}/${total}`, ...figures, `${seconds.toFixed(1)} s`].join("  "));
    },
    onEvaluation: (evaluation, step) => {
      say(`${step === 0 ? "before training" : `after step ${step}`}: ${evaluationText(evaluation)}`);
      last = performance.now();
    },
    onNote: (text) => say(`note: ${text}`),
  };
}

function evaluationText({ success, interval: { low, high }, scored }: Evaluation): string {
  const percent = (rate: number): string => `${(100 * rate).toFixed(1)} %`;
  return `success ${percent(success)} (95 % interval ${percent(low)} to ${percent(high)}, ${amount(scored, "held-out task")})`;
}

/** The few numbers of a step that are worth a line; a loss says little where there is a reward. */
export function stepFigures(row: MetricsRow): Record<string, number> {
  const values: Record<string, number> = {};
  for (const [label, key] of [["reward", "reward/mean"], ["kl", "kl/old"], ["loss", "loss"], ["no-signal", "fracZeroStd"]] as const) {
    const value = row[key];
    if (value !== undefined && (label !== "loss" || row["reward/mean"] === undefined)) values[label] = value;
  }
  return values;
}
