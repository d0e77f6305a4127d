/** `report/` of a run: curves.svg, curves.png and a self-contained index.html. */
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { RunError, amount, onDisk } from "../../errors.ts";
import { type Interval, pairedBootstrap, pairedRates, wilson } from "../evaluate/statistics.ts";
import { makeFolder } from "../record/files.ts";
import { toColumns } from "../record/metrics.ts";
import { type RunRecord, readRun, readTrajectories, trajectorySteps } from "../record/read-run.ts";
import type { RolloutRecord } from "../record/trajectory-codec.ts";
import { figureSvg, svgToPng } from "./figure.ts";
import { reportPage } from "./page.ts";
import { HELD_OUT, panels } from "./panels.ts";
import type { Decode } from "./token-text.ts";

interface Report {
  readonly html: string;
  readonly svg: string;
  readonly png: string;
  /** First and last held-out success, if it was evaluated twice. */
  readonly success: { readonly before: number; readonly after: number } | null;
  readonly findings: readonly string[];
}

/** Reads a run (also while it trains) and writes its report; paths are returned. */
export async function writeReport(folder: string, options: { readonly decode: Decode }): Promise<Report> {
  const run = await readRun(folder);
  const metrics = toColumns(run.metrics);
  const drawn = panels(metrics);
  const success = firstAndLast(run, HELD_OUT);
  const findings = [...successFinding(run, success), ...(await pairedFinding(run)), ...skippedFinding(run)];
  const title = typeof run.config.name === "string" ? run.config.name : basename(folder);
  const rolloutCount = run.ledger.reduce((sum, { rollouts }) => sum + rollouts.length, 0);
  const version = `policy version ${run.ledger.at(-1)?.version ?? 0}`;
  const counted = rolloutCount === 0 ? [] : [amount(rolloutCount, "rollout")];
  const subtitle = [amount(run.ledger.length, "step"), version, ...counted].join(" · ");
  const svg = figureSvg(title, [subtitle, ...findings.slice(0, 1)].join(" · "), drawn.result, drawn.notes);
  const home = join(folder, "report");
  const paths = { html: join(home, "index.html"), svg: join(home, "curves.svg"), png: join(home, "curves.png") };
  const rollouts = await shownRollouts(run);
  const png = await svgToPng(svg);
  const { config, plan } = run;
  const page = reportPage({ title, subtitle, findings, panels: drawn, metrics, config, plan, rollouts, decode: options.decode });
  await onDisk(RunError, home, async () => {
    await makeFolder(home);
    await writeFile(paths.svg, svg);
    await writeFile(paths.png, png);
    await writeFile(paths.html, page);
  });
  return { ...paths, success, findings };
}

function firstAndLast(run: RunRecord, key: string): Report["success"] {
  const values = run.metrics.flatMap((row) => (row[key] !== undefined && Number.isFinite(row[key]) ? [row[key]] : []));
  const [before, after] = [values[0], values.at(-1)];
  return before === undefined || after === undefined || values.length < 2 ? null : { before, after };
}

function successFinding(run: RunRecord, success: Report["success"]): string[] {
  if (success === null) return [];
  const tasks = run.metrics.findLast((row) => row[HELD_OUT] !== undefined)?.["heldout/tasks"];
  const text = `held-out success from ${percent(success.before)} to ${percent(success.after)}`;
  if (tasks === undefined || !Number.isInteger(tasks) || tasks < 1) return [text];
  const { low, high } = wilson(Math.round(success.after * tasks), tasks);
  return [`${text} (95 % interval ${percent(low)} – ${percent(high)}, ${tasks} tasks)`];
}

/** Compares the scores of the first and the last evaluation on the tasks that both graded. */
async function pairedFinding(run: RunRecord): Promise<string[]> {
  const steps = (await trajectorySteps(run.folder, "eval")).filter((step) => step <= run.ledger.length);
  const [first, last] = [steps[0], steps.at(-1)];
  if (first === undefined || last === undefined || first === last) return [];
  const [before, after] = [
    scoresByTask(await readTrajectories(run.folder, "eval", first)),
    scoresByTask(await readTrajectories(run.folder, "eval", last)),
  ];
  const shared = [...before.keys()].filter((task) => after.has(task));
  if (shared.length < 2) return [];
  const scores = (from: ReadonlyMap<string, number>): number[] => shared.map((task) => from.get(task) ?? 0);
  const { difference, interval, method } = pairedDifference(scores(before), scores(after));
  const number = (value: number): string => (value < 0 ? `−${(-value).toFixed(3)}` : `+${value.toFixed(3)}`);
  const alike = interval.low === interval.high;
  const bounds = alike ? "the same for each, so no interval" : `95 % ${method} ${number(interval.low)} – ${number(interval.high)}`;
  return [`paired difference of the held-out score ${number(difference)} (${bounds}, ${shared.length} tasks)`];
}

/**
 * Scores of 0 and 1 are successes, whose interval is never empty; a bootstrap of tasks that all moved alike has no width, at any number
 * of tasks. It is for graded scores.
 */
function pairedDifference(before: readonly number[], after: readonly number[]): { difference: number; interval: Interval; method: string } {
  const isRate = [...before, ...after].every((score) => score === 0 || score === 1);
  if (!isRate) return { ...pairedBootstrap(before, after), method: "bootstrap interval" };
  const right = (scores: readonly number[]): boolean[] => scores.map((score) => score === 1);
  return { ...pairedRates(right(before), right(after)), method: "interval" };
}

/** Mean score of each task's graded samples. */
function scoresByTask(records: readonly RolloutRecord[]): Map<string, number> {
  const scores = new Map<string, number[]>();
  for (const {
    scored: { trajectory, verdict },
  } of records) {
    if (verdict.type === "scored") scores.set(trajectory.task.id, [...(scores.get(trajectory.task.id) ?? []), verdict.score]);
  }
  return new Map([...scores].map(([task, list]) => [task, list.reduce((a, b) => a + b, 0) / list.length]));
}

function skippedFinding(run: RunRecord): string[] {
  const skipped = run.ledger.filter((entry) => entry.skipped !== undefined);
  if (skipped.length === 0) return [];
  const reasons = new Map<string, number>();
  for (const { skipped: reason = "" } of skipped) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  const [reason, count] = [...reasons].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return [`${skipped.length} of ${amount(run.ledger.length, "step")} changed no weights (most often: ${reason}, ${count})`];
}

/** Two rollouts of the first step and two of the last: one that gained and one that lost, where there are such. */
async function shownRollouts(run: RunRecord): Promise<{ heading: string; record: RolloutRecord }[]> {
  const steps = (await trajectorySteps(run.folder, "step")).filter((step) => step <= run.ledger.length);
  const ends = [...new Set([steps[0], steps.at(-1)])].filter((step) => step !== undefined);
  const shown = ends.map(async (step) => {
    const records = (await readTrajectories(run.folder, "step", step)).sort((a, b) => meanAdvantage(b) - meanAdvantage(a));
    const picked = [...new Set([records[0], records.at(-1)])].filter((record) => record !== undefined);
    return picked.map((record) => ({ heading: `Step ${step}`, record }));
  });
  return (await Promise.all(shown)).flat();
}

function meanAdvantage({ credit }: RolloutRecord): number {
  const values = credit?.advantages.flatMap((row) => [...row]) ?? [];
  return values.length === 0 ? 0 : values.reduce((a, b) => a + b, 0) / values.length;
}

function percent(rate: number): string {
  return `${(100 * rate).toFixed(1)} %`;
}
