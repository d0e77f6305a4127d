/** Figure and tables of the recipe. */
import { readFileSync, writeFileSync } from "node:fs";
import { figureSvg } from "../../src/train/report/figure.ts";
import type { Chart, ChartSeries } from "../../src/train/report/chart.ts";
import type { Point } from "./measure.ts";
import { caution } from "./stages.ts";
import type { Stop } from "./stop.ts";
import type { Compared, Verified } from "./verified.ts";

export interface Results {
  readonly curves: Readonly<Record<string, readonly Point[]>>;
  /** By the other reward models, and by fresh labels. */
  readonly stops: { readonly others: Stop; readonly labels: Stop };
  readonly verified?: Verified;
  readonly seconds: Readonly<Record<string, number>>;
}

type Measure = (point: Point) => number;

const root: Measure = ({ kl }) => Math.sqrt(Math.max(0, kl));
/** What the policy is trained on: the first model's score, or the cautious one of the three. DPO, which has none, by the first. */
const proxyOf = (name: string): Measure =>
  name === "cautious ensemble" ? ({ ensemble, disagreement }) => ensemble - caution * disagreement : ({ first }) => first;

/** The run that is stopped early is the one without KL up to the step that fresh labels take. */
function withStopped({ curves, stops }: Results): [string, readonly Point[]][] {
  const stopped = curves["no KL"]!.filter(({ step }) => step <= stops.labels.taken);
  return [...Object.entries(curves).filter(([name]) => name !== "DPO"), ["early stopping", stopped], ["DPO", curves["DPO"]!]];
}

function chartsOf(results: Results): Chart[] {
  const all = withStopped(results);
  const sampled = all.filter(([name]) => name !== "DPO");
  const lines = (curves: typeof all, x: Measure, y: (name: string) => Measure): ChartSeries[] =>
    curves.map(([name, points]) => ({ name, form: "measured", points: points.map((point) => ({ x: x(point), y: y(name)(point) })) }));
  const step: Measure = (point) => point.step;
  const disagreement: Measure = (point) => point.disagreement;
  const wins: Measure = (point) => point.wins;
  const gold = (): Measure => (point) => point.gold;
  const distance = "square root of KL, nats a completion";
  return [
    { title: "proxy: what is trained on", unit: "number", series: lines(sampled, step, proxyOf) },
    { title: "gold: what is meant", unit: "number", series: lines(sampled, step, gold) },
    { title: "proxy", unit: "number", xName: distance, series: lines(all, root, proxyOf) },
    { title: "gold", unit: "number", xName: distance, series: lines(all, root, gold) },
    { title: "disagreement of the three models", unit: "number", xName: distance, series: lines(all, root, () => disagreement) },
    { title: "fresh labels: preferred to the start", unit: "rate", xName: distance, series: lines(all, root, () => wins) },
  ];
}

export function writeFigure(results: Results, path: string): void {
  const subtitle = "held-out prompts; proxy in deviations of the reward model's training scores; every mark is one evaluation";
  const svg = figureSvg("Over-optimisation of a reward model", subtitle, chartsOf(results));
  writeFileSync(path, `${svg}\n`);
}

const row = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |`;
const head = (cells: readonly string[]): string => `${row(cells)}\n${row(cells.map(() => "---"))}`;

/** Each run at its start, at its best gold (which nobody would know), and at its end. */
export function tables(results: Results): string {
  const parts = ["facts", "polite", "wrong", "useless", "repeated"];
  const columns = ["run", "step", "proxy", "gold", "KL", "disagreement", "labels", "words", ...parts];
  const lines = withStopped(results).flatMap(([name, points]) => {
    const peak = points.reduce((a, b) => (b.gold > a.gold ? b : a));
    const last = points.at(-1)!;
    const first: [string, Point][] = name === "no KL" ? [["start", points[0]!]] : [];
    const told: [string, Point][] = [...first, [`${name}, best gold`, peak], [`${name}, end`, last]];
    return told.map(([label, point]) => row([label, point.step, ...numbers(point, proxyOf(name))]));
  });
  const times = Object.entries(results.seconds).map(([name, value]) => row([name, Math.round(value)]));
  const texts = [[head(columns), ...lines].join("\n"), stopLine(results), [head(["stage", "seconds"]), ...times].join("\n")];
  return [...texts, ...(results.verified === undefined ? [] : [verifiedTable(results.verified)])].join("\n\n");
}

function numbers(point: Point, proxy: Measure): string[] {
  const { gold, goldError, kl, disagreement, wins, words, parts } = point;
  const of = (name: string): string => parts[name]!.toFixed(2);
  const judged = `${gold.toFixed(2)} ± ${goldError.toFixed(2)}`;
  const first = [proxy(point).toFixed(2), judged, kl.toFixed(1), disagreement.toFixed(2), wins.toFixed(2), words.toFixed(1)];
  return [...first, ...["facts", "polite", "wrong", "useless", "repeated"].map(of)];
}

function stopLine({ stops: { others, labels } }: Results): string {
  const said = ({ taken, known }: Stop): string => `step ${taken}, known at step ${known}`;
  return `Early stopping of the run without KL: by fresh labels ${said(labels)}; by the other two reward models ${said(others)}.`;
}

function verifiedTable({ pairs, start, verifier, model }: Verified): string {
  const columns = ["held-out answers", "right", "accuracy", "AUC", "mean score, right", "mean score, wrong"];
  const line = (name: string, { answers, right, accuracy, auc, ofRight, ofWrong }: Compared): string =>
    row([name, `${right} of ${answers}`, accuracy.toFixed(3), auc.toFixed(3), ofRight.toFixed(2), ofWrong.toFixed(2)]);
  const rows = [line("before", start), line("after GRPO on the verifier", verifier), line("after GRPO on the model", model)];
  const plain = (text: string): string => `\`${text.replaceAll("|", "/").replaceAll("\n", " ").replaceAll("`", "'")}\``;
  const worst = model.worst.map(({ text, score, right, misplaced }) =>
    row([right ? "right" : "wrong", score.toFixed(2), `${Math.round(100 * misplaced)} %`, plain(text)]),
  );
  const judged = [head(["verifier", "model", "misplaced", "question and answer"]), ...worst].join("\n");
  const table = [head(columns), ...rows].join("\n");
  return [`${pairs} verified pairs.`, table, "Worst disagreements after GRPO on the model:", judged].join("\n\n");
}

/** Puts the tables between the page's two marks. */
export function writeTables(results: Results, page: string): void {
  const text = readFileSync(page, "utf8");
  const [before, after] = [/<!-- tables -->/, /<!-- end of tables -->/].map((mark) => mark.exec(text)!);
  const upTo = before!.index + before![0].length;
  writeFileSync(page, `${text.slice(0, upTo)}\n\n${tables(results)}\n\n${text.slice(after!.index)}`);
}
