/** How a training run looks in a terminal: the plan, one live line of progress, evaluations with their intervals, the outcome. */
import { visible } from "../../../errors.ts";
import type { Evaluation } from "../../../train/evaluate/evaluate.ts";
import { pairedRates } from "../../../train/evaluate/statistics.ts";
import { planLines } from "../../../train/plan.ts";
import { stepFigures } from "../../../train/terminal.ts";
import type { TrainOptions } from "../../../train/train.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour, type Paint } from "./colour.ts";
import { byteSize } from "./places.ts";
import { progress, type Progress } from "./progress.ts";
import { beforeAfter } from "./spark.ts";
import { table } from "./table.ts";

type Observer = NonNullable<TrainOptions["observer"]>;

interface TrainView {
  readonly observer: Required<Pick<Observer, "onRead" | "onPlan" | "onStep" | "onEvaluation" | "onNote">>;
  /** The first and the last evaluation; undefined before there are any. */
  readonly before: Evaluation | undefined;
  readonly after: Evaluation | undefined;
  readonly steps: number;
  end(): void;
}

/** A view that writes to standard error; with `json` only progress events are written there. */
export function trainView(services: Pick<CliServices, "stderr" | "environment">, json: boolean): TrainView {
  const { stderr, environment } = services;
  const paint = painter(!json && wantsColour(stderr, environment));
  let bar: Progress | undefined;
  let reading: Progress | undefined;
  let first: Evaluation | undefined;
  let last: Evaluation | undefined;
  let steps = 0;
  let total = 0;
  const say = (line: string): void => {
    if (json) return;
    if (bar === undefined) stderr.write(`${line}\n`);
    else bar.note(line);
  };
  const onEvaluation: TrainView["observer"]["onEvaluation"] = (evaluation, step) => {
    first ??= evaluation;
    last = evaluation;
    say(evaluationLine(evaluation, step, paint));
  };
  const onStep: TrainView["observer"]["onStep"] = (row) => {
    bar ??= progress({ label: "training", total, stream: stderr, json, environment, start: row.step - 1 });
    steps = row.step;
    bar.update(row.step, stepFigures(row));
  };
  const onRead = (done: number, all: number): void => {
    reading ??= progress({ label: "reading data", total: all, stream: stderr, json, environment, show: byteSize });
    reading.update(done);
  };
  return {
    observer: {
      onRead,
      onPlan: (config, plan) => {
        reading?.end();
        total = config.train.steps;
        for (const line of planLines(config, plan)) say(paint(line, "dim"));
      },
      onStep,
      onEvaluation,
      onNote: (text) => say(`${paint("note", "yellow")}  ${visible(text)}`),
    },
    get before() {
      return first;
    },
    get after() {
      return last;
    },
    get steps() {
      return steps;
    },
    end: () => {
      reading?.end();
      bar?.end();
    },
  };
}

const percent = (rate: number): string => (Number.isFinite(rate) ? `${(100 * rate).toFixed(1)} %` : "?");

export function evaluationLine({ success, interval, scored, seconds }: Evaluation, step: number, paint: Paint): string {
  const when = step === 0 ? "before training" : `after step ${step}`;
  const range = paint(
    `95 % interval ${percent(interval.low)} to ${percent(interval.high)}, ${scored} held-out tasks, ${seconds.toFixed(1)} s`,
    "dim",
  );
  return `${paint(when.padEnd(15), "cyan")}  success ${paint(percent(success), "bold")}  ${range}`;
}

/** The outcome: both rates as bars, the test of their difference, and every measure before and after. */
export function outcomeLines(before: Evaluation, after: Evaluation, paint: Paint): string[] {
  const paired = pairedRates(before.successes, after.successes);
  const interval = `95 % interval ${signedPercent(paired.interval.low)} to ${signedPercent(paired.interval.high)}`;
  const change = `${signedPercent(paired.difference)} (${interval}), exact McNemar p ${showP(paired.pValue)}`;
  const names = Object.keys(before.measures).filter((name) => /^tools\/(missed|needless|wrong.*|malformed|resultIgnored)$/.test(name));
  const rows = names.map((name) => [name, percent(before.measures[name]!), percent(after.measures[name] ?? NaN)]);
  return [
    beforeAfter("held-out success", { before: before.success, after: after.success }, paint),
    paint(change, "dim"),
    ...(rows.length === 0
      ? []
      : [
          "",
          ...table(
            [
              { title: "how tools were used (share of held-out tasks)" },
              { title: "before", align: "right" },
              { title: "after", align: "right" },
            ],
            rows,
          ),
        ]),
  ];
}

const signedPercent = (share: number): string => `${share >= 0 ? "+" : ""}${(100 * share).toFixed(1)} %`;
const showP = (p: number): string => (p < 1e-4 ? "< 0.0001" : `= ${p.toFixed(4)}`);
