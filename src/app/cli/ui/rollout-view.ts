/** A recorded rollout for the terminal: context dim, sampled tokens on green or red by the sign of their advantage. */
import { amount, visible } from "../../../errors.ts";
import type { RolloutRecord } from "../../../train/record/trajectory-codec.ts";
import { type ContextToken, type Decode, type SampledToken, finishText, rowTokens, signed } from "../../../train/report/token-text.ts";
import type { SampledSpan, Turn, Verdict } from "../../../types.ts";
import type { Paint } from "./colour.ts";
import { shortNumber } from "./progress.ts";
import { table } from "./table.ts";

interface RolloutViewOptions {
  readonly decode: Decode;
  readonly paint: Paint;
  /** Adds a table of every token with its id, log-prob and advantage. */
  readonly tokens: boolean;
}

/** Lines to print, without line ends. */
export function rolloutView(record: RolloutRecord, options: RolloutViewOptions): string[] {
  const { scored, credit } = record;
  const { trajectory } = scored;
  const { paint } = options;
  const lines = [...headLines(record, paint), ""];
  trajectory.rows.forEach((row, index) => {
    const spans = rowTokens(row, index, { credit, decode: options.decode });
    if (trajectory.rows.length > 1) lines.push(paint(`row ${index + 1} of ${trajectory.rows.length}`, "bold"));
    row.spans.forEach((span, place) => {
      const turn = trajectory.turns.findIndex((each) => each.row === index && each.span === place);
      if (span.kind === "sampled")
        lines.push(turnLine({ span, turn: trajectory.turns[turn], number: turn + 1, tokens: spans[place] ?? [] }, paint));
      lines.push(...textLines(spans[place] ?? [], paint));
    });
    if (options.tokens) lines.push("", ...tokenTable(spans.flat(), paint));
  });
  return lines;
}

/** One line a rollout, for choosing. */
export function rolloutTable(records: readonly RolloutRecord[], paint: Paint): string[] {
  const rows = records.map(({ scored: { trajectory, verdict }, credit }) => {
    const sampled = trajectory.rows.flatMap((row) => row.spans).filter((span): span is SampledSpan => span.kind === "sampled");
    const tokens = sampled.reduce((sum, span) => sum + span.ids.length, 0);
    const advantages = credit?.advantages.flatMap((row) => [...row]) ?? [];
    const mean = advantages.reduce((a, b) => a + b, 0) / advantages.length;
    const advantage = advantages.length === 0 ? paint("none", "dim") : paint(signed(mean), mean > 0 ? "green" : mean < 0 ? "red" : "dim");
    return [
      visible(trajectory.id),
      visible(trajectory.task.id),
      String(trajectory.sample),
      scoreText(verdict, paint),
      advantage,
      String(trajectory.turns.length),
      String(tokens),
      trajectory.end.type,
    ];
  });
  const right = { align: "right" } as const;
  return table(
    [
      { title: "rollout" },
      { title: "task" },
      { title: "sample", ...right },
      { title: "score", ...right },
      { title: "advantage", ...right },
      { title: "turns", ...right },
      { title: "tokens", ...right },
      { title: "ended" },
    ],
    rows,
  );
}

function headLines({ scored: { trajectory, verdict } }: RolloutRecord, paint: Paint): string[] {
  const { id, task, sample, end, measures, seconds } = trajectory;
  const how = end.type === "error" ? `error in ${end.boundary}: ${end.message}` : end.type;
  const member = `${paint("sample", "dim")} ${sample}`;
  const figures = Object.entries(measures).map(([name, value]) => `${visible(name)} ${shortNumber(value)}`);
  return [
    `${paint("rollout", "dim")}   ${paint(visible(id), "bold")}  ${paint("task", "dim")} ${visible(task.id)}  ${member}`,
    verdictLine(verdict, paint),
    `${paint("measures", "dim")}  ${[...figures, `${shortNumber(seconds)} s`].join("  ")}`,
    `${paint("ended", "dim")}     ${visible(how)}`,
  ];
}

function verdictLine(verdict: Verdict, paint: Paint): string {
  const label = paint("verdict", "dim");
  if (verdict.type !== "scored") return `${label}   ${scoreText(verdict, paint)}  ${visible(verdict.reason)}`;
  const parts = Object.entries(verdict.components).map(([name, value]) => paint(`${visible(name)} ${shortNumber(value)}`, "dim"));
  return `${label}   ${[scoreText(verdict, paint), visible(verdict.explanation), ...parts].join("  ")}`;
}

function scoreText(verdict: Verdict, paint: Paint): string {
  if (verdict.type !== "scored") return paint(verdict.type, "yellow");
  return paint(verdict.score.toFixed(2), "bold", verdict.score > 0 ? "green" : "red");
}

interface SampledTurn {
  readonly span: SampledSpan;
  readonly turn: Turn | undefined;
  readonly number: number;
  readonly tokens: readonly (ContextToken | SampledToken)[];
}

function turnLine({ span, turn, number, tokens }: SampledTurn, paint: Paint): string {
  const advantages = tokens.flatMap((token) => (token.kind === "sampled" && token.advantage !== undefined ? [token.advantage] : []));
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  const parts = [
    turn === undefined ? "sampled" : turn.parse,
    finishText(span.finish),
    amount(span.ids.length, "token"),
    `policy v${span.version}`,
    ...(span.ids.length === 0 ? [] : [`mean log-prob ${mean(span.logprobs).toFixed(3)}`]),
    ...(advantages.length === 0 ? ["no advantage"] : [`advantage ${signed(mean(advantages))}`]),
    ...(turn?.reward === undefined ? [] : [`turn reward ${shortNumber(turn.reward)}`]),
  ];
  return `${paint(`── turn ${number} `, "bold", "cyan")}${paint(parts.map(visible).join(" · "), "cyan")}`;
}

/** Styles end before a line end and begin again after it, so that a background never fills a line's rest. */
function textLines(tokens: readonly (ContextToken | SampledToken)[], paint: Paint): string[] {
  const painted = tokens.map((token) => {
    const style = token.kind === "context" ? "dim" : (token.advantage ?? 0) > 0 ? "onGreen" : (token.advantage ?? 0) < 0 ? "onRed" : "bold";
    return visible(token.text)
      .split("\n")
      .map((part) => paint(part, style))
      .join("\n");
  });
  const text = painted.join("");
  return text === "" ? [] : text.split("\n");
}

function tokenTable(tokens: readonly (ContextToken | SampledToken)[], paint: Paint): string[] {
  const rows = tokens.map((token, index) => {
    const shared = [
      String(index),
      String(token.id),
      JSON.stringify(visible(token.text)),
      paint(token.kind, token.kind === "context" ? "dim" : "bold"),
    ];
    if (token.kind === "context") return shared;
    const advantage =
      token.advantage === undefined
        ? ""
        : paint(signed(token.advantage), token.advantage > 0 ? "green" : token.advantage < 0 ? "red" : "dim");
    return [...shared, token.logprob.toFixed(4), Math.exp(token.logprob).toFixed(3), advantage, `v${token.version}`];
  });
  const right = { align: "right" } as const;
  return table(
    [
      { title: "#", ...right },
      { title: "id", ...right },
      { title: "text" },
      { title: "kind" },
      { title: "log-prob", ...right },
      { title: "p", ...right },
      { title: "advantage", ...right },
      { title: "policy" },
    ],
    rows,
  );
}
