/** The report as one HTML file: no script, no request to anywhere, light and dark by the reader's setting. */
import type { JsonObject } from "../../types.ts";
import type { MetricColumns } from "../record/metrics.ts";
import type { RolloutRecord } from "../record/trajectory-codec.ts";
import { type Chart, type Palette, chartSvg } from "./chart.ts";
import { LIGHT } from "./figure.ts";
import type { Panels } from "./panels.ts";
import { escapeXml } from "./svg.ts";
import { type ContextToken, type Decode, type SampledToken, finishText, rowTokens, signed } from "./token-text.ts";

interface PageParts {
  readonly title: string;
  readonly subtitle: string;
  /** Sentences of the result, most important first. */
  readonly findings: readonly string[];
  readonly panels: Panels;
  readonly metrics: MetricColumns;
  readonly config: JsonObject;
  readonly plan: JsonObject;
  readonly rollouts: readonly { readonly heading: string; readonly record: RolloutRecord }[];
  readonly decode: Decode;
}

const VARIABLES: Palette = {
  ink: "var(--ink)",
  muted: "var(--muted)",
  grid: "var(--grid)",
  paper: "var(--paper)",
  series: LIGHT.series.map((_, i) => `var(--series-${i})`),
};

const DARK_SERIES = ["#56b4e9", "#ff9d4d", "#2fd0a0", "#e59ad0", "#e5c558", "#9ecdf0", "#bbbbbb"];

const STYLE = `
:root { color-scheme: light dark; --ink: ${LIGHT.ink}; --muted: ${LIGHT.muted}; --grid: ${LIGHT.grid}; --paper: #fff; --page: #f6f7f9;
  --good: 0 150 90; --bad: 213 60 30; ${LIGHT.series.map((colour, i) => `--series-${i}: ${colour};`).join(" ")} }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --muted: #9aa4af; --grid: #2c333b; --paper: #171b20; --page: #0f1215;
  --good: 40 190 120; --bad: 255 100 70; ${DARK_SERIES.map((colour, i) => `--series-${i}: ${colour};`).join(" ")} } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 24px; max-width: 1240px; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
h1 { margin: 0; font-size: 26px } h2 { margin: 36px 0 12px; font-size: 19px } .muted { color: var(--muted) }
.findings { padding: 0; list-style: none; font-size: 17px }
.charts { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)) }
.card { background: var(--paper); border: 1px solid var(--grid); border-radius: 8px; overflow: hidden }
.charts svg { display: block; width: 100% }
.rollout { padding: 12px 16px; margin-bottom: 16px }
.tokens { margin: 10px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.7 ui-monospace, monospace }
.context { color: var(--muted) }
.sampled { border-radius: 2px; box-shadow: inset 0 -1px var(--grid) }
.turn { color: var(--series-0); font-weight: 600 }
summary { cursor: pointer; font-weight: 600 }
pre { overflow-x: auto; font: 13px/1.5 ui-monospace, monospace }
details { padding: 10px 16px; margin-bottom: 12px }
.note { margin: 6px 0; font-size: 13px } table { border-collapse: collapse; margin-top: 10px; font-size: 13px }
td, th { padding: 2px 14px 2px 0; text-align: right; font-variant-numeric: tabular-nums }
td:first-child, th:first-child { text-align: left }
small { color: var(--muted) }
.key span { color: var(--ink); padding: 1px 6px; border-radius: 3px; margin-right: 8px }
`;

/** The whole document. */
export function reportPage(parts: PageParts): string {
  const frame = { width: 600, height: 300, palette: VARIABLES };
  const { result, running, notes } = parts.panels;
  const figures = (charts: readonly Chart[]): string =>
    charts.map((chart) => `<figure class="card" style="margin:0">${chartSvg(chart, frame)}</figure>`).join("\n");
  const largest = Math.max(
    ...parts.rollouts.flatMap(({ record }) => record.credit?.advantages.flatMap((row) => [...row].map(Math.abs)) ?? []),
    1e-12,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>${escapeXml(parts.title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeXml(parts.title)}</h1>
<div class="muted">${escapeXml(parts.subtitle)}</div>
<ul class="findings">${parts.findings.map((finding) => `<li>${escapeXml(finding)}</li>`).join("")}</ul>
<div class="charts">
${figures(result)}
</div>
${running.length === 0 ? "" : `<h2>How it ran</h2>\n<div class="charts">\n${figures(running)}\n</div>`}
${notes.map((note) => `<p class="muted note">${escapeXml(note)}</p>`).join("\n")}
${measuresTable(parts.metrics)}
${rolloutSection(parts, largest)}
<h2>Configuration and plan</h2>
${jsonDetails("Configuration", parts.config)}
${jsonDetails("Plan", parts.plan)}
</body>
</html>
`;
}

/** Every measure, also those that are not drawn. */
function measuresTable({ steps, columns }: MetricColumns): string {
  const rows = [...columns].map(([key, values]) => {
    const known = values.flatMap((value, i) => (value === undefined ? [] : [{ value, step: steps[i]! }]));
    const finite = known.map(({ value }) => value).filter(Number.isFinite);
    const ends = [known[0], known.at(-1)].map((end) => (end === undefined ? "" : `${shown(end.value)} <small>(${end.step})</small>`));
    const [least, greatest] = [finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), -Infinity)];
    const bounds = finite.length === 0 ? ["", ""] : [least, greatest].map(shown);
    return `<tr><td>${escapeXml(key)}</td>${[...ends, ...bounds].map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
  });
  const head = ["measure", "first (step)", "last (step)", "least", "greatest"].map((name) => `<th>${name}</th>`).join("");
  return `<details class="card"><summary>All measures</summary><table><tr>${head}</tr>\n${rows.join("\n")}</table></details>`;
}

/** Four digits. */
function shown(value: number): string {
  return String(Number.isFinite(value) ? Number(value.toPrecision(4)) : value).replace("-", "−");
}

function jsonDetails(title: string, value: JsonObject): string {
  return `<details class="card"><summary>${title}</summary><pre>${escapeXml(JSON.stringify(value, null, 2))}</pre></details>`;
}

function rolloutSection({ rollouts, decode }: PageParts, largest: number): string {
  if (rollouts.length === 0) return "";
  const sample = (advantage: number, label: string): string => `<span style="${shade(advantage, largest)}">${label}</span>`;
  const about = "Grey text was given to the policy and is never trained. Hover a token for its id, log-prob and advantage.";
  const key = `<p class="key muted">${sample(largest, "sampled, advantage above 0")}${sample(-largest, "below 0")}${about}</p>`;
  const cards = rollouts.map(({ heading, record }) => rolloutCard(heading, record, { decode, largest }));
  return `<h2>Rollouts, first and last</h2>${key}${cards.join("\n")}`;
}

function rolloutCard(
  heading: string,
  record: RolloutRecord,
  { decode, largest }: { readonly decode: Decode; readonly largest: number },
): string {
  const {
    scored: { trajectory, verdict },
    credit,
  } = record;
  const judged =
    verdict.type === "scored" ? `score ${verdict.score.toFixed(2)}: ${verdict.explanation}` : `${verdict.type}: ${verdict.reason}`;
  const rows = trajectory.rows.map((row, index) => {
    const spans = rowTokens(row, index, { credit, decode });
    const parts = row.spans.map((span, place) => {
      const body = (spans[place] ?? []).map((token) => tokenHtml(token, largest)).join("");
      return span.kind === "context"
        ? body
        : `${body}<span class="turn" title="policy version ${span.version}"> ⟨${escapeXml(finishText(span.finish))}⟩</span>`;
    });
    return `<div class="tokens">${parts.join("")}</div>`;
  });
  const id = `<span class="muted">${escapeXml(`${trajectory.id} · task ${trajectory.task.id} · ended: ${trajectory.end.type}`)}</span>`;
  return `<div class="card rollout"><strong>${escapeXml(heading)}</strong> ${id}<br>${escapeXml(judged)}${rows.join("")}</div>`;
}

function tokenHtml(token: ContextToken | SampledToken, largest: number): string {
  if (token.kind === "context") return `<span class="context">${escapeXml(token.text)}</span>`;
  const { id, logprob, advantage, version } = token;
  const credit = `advantage ${advantage === undefined ? "none" : signed(advantage)}`;
  const title = `id ${id} · log-prob ${logprob.toFixed(4)} · p ${Math.exp(logprob).toFixed(3)} · ${credit} · policy v${version}`;
  return `<span class="sampled" style="${shade(advantage ?? 0, largest)}" title="${escapeXml(title)}">${escapeXml(token.text)}</span>`;
}

/** Green above 0, red below, stronger for larger. */
function shade(advantage: number, largest: number): string {
  if (advantage === 0) return "";
  const strength = (0.12 + 0.43 * Math.min(1, Math.abs(advantage) / largest)).toFixed(2);
  return `background:rgb(var(--${advantage > 0 ? "good" : "bad"}) / ${strength})`;
}
