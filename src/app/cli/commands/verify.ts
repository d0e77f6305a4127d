/** `flywheel verify`: any verifier on a file of right and given answers, or on the rollouts of a run. */
import { type Command, InvalidArgumentError } from "commander";
import { ConfigError, RewardError, amount, expected, scored, visible } from "../../../errors.ts";
import { listVerifiers, openVerifier } from "../../../loop/reward/verifiers/registry.ts";
import type { Verifier } from "../../../loop/reward/verifiers/verifier.ts";
import type { Json, Verdict } from "../../../types.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { pathFrom } from "../ui/places.ts";
import { wholeOption } from "../ui/numbers.ts";
import { progress } from "../ui/progress.ts";
import { table } from "../ui/table.ts";
import { readRows, type VerifyRow } from "../verify/rows.ts";

interface Given {
  readonly verifier?: string;
  readonly options: string;
  readonly gold?: string;
  readonly answer: string;
  readonly accept: number;
  readonly step?: number;
  readonly eval?: boolean;
  readonly concurrency: number;
  readonly list?: boolean;
  readonly json?: boolean;
}

export function registerVerify(program: Command, services: CliServices): void {
  program
    .command("verify")
    .description("grade a file of right and given answers, or a run's rollouts, with any verifier; exit code 0 if all are accepted")
    .argument("[source]", ".jsonl or .csv file with a right and a given answer a row, or a run folder")
    .option("-V, --verifier <name>", "which verifier; --list shows them")
    .option("-o, --options <json>", "options of the verifier as a JSON object", "{}")
    .option("-g, --gold <name>", "field, column or key of the task's data with the right answer, . is all (default: gold, of a run answer)")
    .option("-a, --answer <name>", "field or column with the given answer", "answer")
    .option("--accept <score>", "the least score that is accepted", scoreOption, 1)
    .option("-s, --step <n>", "of a run: the training step (default: the last)", wholeOption)
    .option("-e, --eval", "of a run: the held-out evaluation after the step")
    .option("--concurrency <n>", "gradings at the same time", wholeOption, 4)
    .option("-l, --list", "list the verifiers and their options")
    .option("--json", "print every verdict and the totals as JSON")
    .action((source: string | undefined, given: Given) => (given.list === true ? list(given, services) : run(source, given, services)));
}

function list({ json }: Given, { stdout }: CliServices): void {
  const verifiers = listVerifiers();
  if (json === true) return void stdout.write(`${JSON.stringify(verifiers)}\n`);
  const rows = verifiers.map(({ name, about, options }) => [name, about, options.join(", ")]);
  stdout.write(`${table([{ title: "verifier" }, { title: "grades" }, { title: "options" }], rows).join("\n")}\n`);
}

interface Graded {
  readonly row: VerifyRow;
  readonly verdict: Verdict;
  readonly accepted: boolean;
}

async function run(source: string | undefined, given: Given, services: CliServices): Promise<void> {
  if (source === undefined)
    throw new ConfigError(expected("verify", "a file or a run folder", "none", "or list the verifiers with --list"));
  if (given.verifier === undefined) throw new ConfigError(expected("verify", "--verifier", "none", "list the verifiers with --list"));
  if (given.concurrency < 1) throw new ConfigError(expected("--concurrency", "1 or more", String(given.concurrency)));
  const verifier = await openVerifier(given.verifier, optionsOf(given.options));
  const rows = await readRows(pathFrom(services.cwd, source), { ...given, whole: ["code", "lean"].includes(given.verifier) });
  const graded = await gradeAll(rows, verifier, { given, services });
  report(graded, verifier, { given, services });
  const accepted = graded.filter((each) => each.accepted).length;
  const left = graded.length - accepted;
  if (left > 0) throw new RewardError(`${left} of ${amount(graded.length, "answer")} ${left === 1 ? "was" : "were"} not accepted`);
}

function optionsOf(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw new ConfigError(expected("--options", "a JSON object", text.slice(0, 60)));
  }
}

interface Place {
  readonly given: Given;
  readonly services: CliServices;
}

async function gradeAll(rows: readonly VerifyRow[], verifier: Verifier, { given, services }: Place): Promise<readonly Graded[]> {
  const { stderr, environment, signal } = services;
  const bar = progress({ label: "grading", total: rows.length, stream: stderr, json: given.json === true, environment });
  const graded: Graded[] = [];
  let next = 0;
  let done = 0;
  const worker = async (): Promise<void> => {
    for (let i = next++; i < rows.length; i = next++) {
      signal.throwIfAborted();
      const row = rows[i]!;
      const verdict = row.answer === null ? scored(0, row.reason) : await verifier.verify({ answer: row.answer, gold: row.gold, signal });
      graded[i] = { row, verdict, accepted: verdict.type === "scored" && verdict.score >= given.accept };
      bar.update(++done, { accepted: graded.filter((each) => each?.accepted === true).length });
    }
  };
  try {
    await Promise.all(Array.from({ length: given.concurrency }, worker));
  } finally {
    bar.end();
  }
  return graded;
}

function report(graded: readonly Graded[], verifier: Verifier, { given, services }: Place): void {
  const count = (type: Verdict["type"]): number => graded.filter(({ verdict }) => verdict.type === type).length;
  const scores = graded.flatMap(({ verdict }) => (verdict.type === "scored" ? [verdict.score] : []));
  const totals = {
    verifier: verifier.name,
    rows: graded.length,
    accepted: graded.filter((each) => each.accepted).length,
    scored: scores.length,
    unscorable: count("unscorable"),
    infrastructure: count("infrastructure"),
    meanScore: scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length,
  };
  if (given.json === true) {
    const rows = graded.map(({ row, verdict, accepted }) => ({ id: row.id, accepted, verdict }));
    return void services.stdout.write(`${JSON.stringify({ ...totals, verdicts: rows })}\n`);
  }
  const paint = painter(wantsColour(services.stdout, services.environment));
  const lines = graded.map(({ row, verdict, accepted }) => [
    visible(row.id),
    verdict.type === "scored" ? verdict.score.toFixed(3) : verdict.type,
    accepted ? paint("yes", "green") : paint("no", "red"),
    shortened(verdict.type === "scored" ? verdict.explanation : verdict.reason, services.stdout.columns ?? 100),
  ]);
  const columns = [{ title: "row" }, { title: "score", align: "right" }, { title: "accepted" }, { title: "why" }] as const;
  const mean = totals.meanScore === null ? "" : `, mean score ${totals.meanScore.toFixed(3)}`;
  const rest = `${totals.unscorable} unscorable, ${totals.infrastructure} not graded`;
  services.stdout.write(`${table(columns, lines).join("\n")}\n\n${totals.accepted} of ${totals.rows} accepted${mean}; ${rest}\n`);
}

function shortened(text: string, columns: number): string {
  const room = Math.max(30, columns - 36);
  const line = visible(text).replaceAll("\n", " ");
  return line.length > room ? `${line.slice(0, room - 1)}…` : line;
}

function scoreOption(value: string): number {
  if (value.trim() === "" || !Number.isFinite(Number(value))) throw new InvalidArgumentError("expected a number.");
  return Number(value);
}
