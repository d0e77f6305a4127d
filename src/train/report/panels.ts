/**
 * Which measures go into which chart: one kind under one title, at most six lines a chart, and none for what stood still. What is not
 * drawn is named in the notes, and the page's table has every measure.
 */
import { wilson } from "../evaluate/statistics.ts";
import type { MetricColumns } from "../record/metrics.ts";
import type { Chart, ChartSeries } from "./chart.ts";

/** The held-out success rate and the number of tasks it was taken over; together they give the interval. */
export const HELD_OUT = "heldout/success";
const HELD_OUT_TASKS = "heldout/tasks";
const ACCURACY = "heldout/accuracy";

/** Drawn as intervals of other measures. */
const BOUNDS = [HELD_OUT_TASKS, "heldout/examples", "heldout/accuracyLow", "heldout/accuracyHigh"];

/** Most lines of one chart. */
const mostLines = 6;

interface PanelSpec {
  readonly title: string;
  readonly unit: Chart["unit"];
  readonly keys: RegExp;
  /** What a key is called; default: what follows its last slash. */
  readonly names?: Readonly<Record<string, string>>;
  /** Drawn also where it stood still. */
  readonly always?: boolean;
}

const CALLS = "turns|toolCalls|toolErrors|toolCallsNotRun|malformedToolCalls|newRows";
const MISTAKES = "toolMissed|toolNeedless|wrongTool|malformedCall|wrongArguments|resultIgnored";

/** What a run is about. */
const RESULT: readonly PanelSpec[] = [
  {
    title: "Reward and held-out success", unit: "rate", keys: /^(reward|reward\/mean|heldout\/(success|score))$/, always: true,
    names: { reward: "reward (train)", "reward/mean": "reward (train)", [HELD_OUT]: "held-out success", "heldout/score": "held-out score" },
  },
  {
    title: "Preferences ranked rightly", unit: "rate", keys: /^((rewards|heldout)\/accuracy)$/, always: true,
    names: { "rewards/accuracy": "train", [ACCURACY]: "held out" },
  },
  { title: "Steps judged rightly", unit: "rate", keys: /^steps\/accuracy$/ },
  { title: "Loss", unit: "number", keys: /^(loss|heldout\/loss)$/, names: { loss: "loss (train)", "heldout/loss": "held-out loss" } },
  { title: "Parts of the loss", unit: "number", keys: /^loss\// },
  { title: "Scores of the answers of a pair", unit: "number", keys: /^rewards\/(chosen|rejected|margin)$/ },
  { title: "Held-out margin of pairs", unit: "number", keys: /^heldout\/(margin|disagreement)$/ },
  { title: "Log-prob gap to the reference (nats a token)", unit: "number", keys: /^reference\/gap$/ },
  { title: "Reward parts", unit: "number", keys: /^reward\/(?!mean$|std$|groupStd$)/ },
  {
    title: "Standard deviation of rewards", unit: "number", keys: /^reward\/(std|groupStd)$/,
    names: { "reward/std": "all rollouts", "reward/groupStd": "within a group" },
  },
  {
    title: "KL to the reference (nats a token)", unit: "number", keys: /^kl$|^kl\/(reference|completion)(K1)?$/,
    names: {
      "kl/reference": "k3 over tokens", "kl/referenceK1": "k1 over tokens",
      "kl/completion": "k3 over completions", "kl/completionK1": "k1 over completions",
    },
  },
  {
    title: "Groups and rollouts without signal", unit: "rate", keys: /^(fracZeroStd|truncated|unscorable)$/,
    names: { fracZeroStd: "groups of equal rewards", truncated: "rollouts cut", unscorable: "rollouts not graded" },
  },
  {
    title: "Entropy (nats a token)", unit: "number", keys: /^entropy(\/|$)/,
    names: { "entropy/sampled": "of sampled tokens", entropy: "of the distributions" },
  },
  {
    title: "Sampled tokens of a rollout", unit: "number", keys: /^length\/|^heldout\/sampledTokens$/,
    names: { "heldout/sampledTokens": "held-out mean", "length/finished": "mean of the finished" },
  },
  { title: "Turns and calls of a rollout", unit: "number", keys: new RegExp(`^(${CALLS})$`) },
  { title: "Turns and calls of a rollout, held out", unit: "number", keys: new RegExp(`^heldout/(${CALLS})$`) },
  { title: "Tool mistakes (share of rollouts)", unit: "rate", keys: new RegExp(`^(${MISTAKES})$`) },
  { title: "Tool mistakes (share of rollouts), held out", unit: "rate", keys: new RegExp(`^heldout/(${MISTAKES})$`) },
  { title: "Repeated 4-grams (share)", unit: "rate", keys: /^repetition$/ },
  {
    title: "Critic", unit: "number", keys: /^critic\/(value|loss|explainedVariance)$/,
    names: { "critic/value": "mean value", "critic/explainedVariance": "explained variance" },
  },
  { title: "Coefficients", unit: "number", keys: /^coefficient\// },
  {
    title: "Gradient norm", unit: "number", keys: /^(critic\/)?gradNorm$/,
    names: { gradNorm: "policy", "critic/gradNorm": "critic" },
  },
  {
    title: "Tokens clipped or left out (share)", unit: "rate",
    keys: /^((critic\/)?clipFraction|offPolicyMasked|klCovFraction|correction\/capped)$/,
    names: { clipFraction: "policy", "critic/clipFraction": "critic", "correction/capped": "correction capped" },
  },
  { title: "KL of the step in its trust region", unit: "number", keys: /^trust\/kl$/ },
];

/** How it ran. */
const RUNNING: readonly PanelSpec[] = [
  {
    title: "Sampler against trainer", unit: "number", keys: /^(samplerGap|ratioGap)$/,
    names: { samplerGap: "largest log-prob gap", ratioGap: "mean of |ratio − 1|" },
  },
  { title: "KL to the policy that sampled (k3)", unit: "number", keys: /^kl\/old$/, names: { "kl/old": "before the update" } },
  {
    title: "Learning rate", unit: "number", keys: /^(critic\/)?learningRate$/,
    names: { learningRate: "policy", "critic/learningRate": "critic" },
  },
  { title: "Tokens of a batch", unit: "number", keys: /^batch\/(tokens|processed)$/ },
  { title: "Rows of a batch, groups replaced", unit: "number", keys: /^batch\/(rows|skipped|replaced)$/ },
  { title: "Sampled tokens, in total", unit: "number", keys: /^tokens\/sampled$/ },
  { title: "Sampled tokens a second", unit: "number", keys: /^tokensPerSecond\// },
  { title: "Seconds of a step", unit: "number", keys: /^seconds\// },
];

export interface Panels {
  readonly result: readonly Chart[];
  readonly running: readonly Chart[];
  /** What is not drawn and why, one line each. */
  readonly notes: readonly string[];
}

/** Keys that were left out of the charts. */
interface LeftOut {
  readonly zero: string[];
  /** With the value that they had throughout. */
  readonly constant: string[];
  /** With the key that has the same values. */
  readonly same: string[];
  readonly more: string[];
}

/** Charts in reading order. Keys that no panel names form panels by their first word, and without one "Other measures". */
export function panels(metrics: MetricColumns): Panels {
  const left = new Set([...metrics.columns.keys()].filter((key) => !BOUNDS.includes(key)));
  const out: LeftOut = { zero: [], constant: [], same: [], more: [] };
  const domain = [metrics.steps[0] ?? 0, metrics.steps.at(-1) ?? 0] as const;
  const draw = (spec: PanelSpec, keys: readonly string[]): Chart[] => {
    const series = drawn(spec, { keys, metrics, out });
    return series.length === 0 ? [] : [{ title: spec.title, unit: spec.unit, xRange: domain, series }];
  };
  const take = (spec: PanelSpec): Chart[] => {
    const keys = [...left].filter((key) => spec.keys.test(key));
    for (const key of keys) left.delete(key);
    return draw(spec, keys);
  };
  const [result, running] = [RESULT.flatMap(take), RUNNING.flatMap(take)];
  const heads = [...new Set([...left].map(headOf))];
  const rest = heads.flatMap((title) =>
    draw({ title, unit: "number", keys: /^/ }, [...left].filter((key) => headOf(key) === title)),
  );
  return { result: [...result, ...rest], running, notes: notesOf(out) };
}

function headOf(key: string): string {
  if (!key.includes("/")) return "Other measures";
  return key.startsWith("heldout/") ? "Other measures, held out" : key.slice(0, key.indexOf("/"));
}

interface DrawOptions {
  readonly keys: readonly string[];
  readonly metrics: MetricColumns;
  readonly out: LeftOut;
}

/** The lines of a chart; what is not drawn goes into `out`. */
function drawn({ names = {}, always = false }: PanelSpec, { keys, metrics, out }: DrawOptions): ChartSeries[] {
  const kept: { readonly key: string; readonly points: ChartSeries["points"] }[] = [];
  for (const key of keys) {
    const points = pointsOf(key, metrics);
    const twin = kept.find((other) => isSame(other.points, points));
    if (twin !== undefined) out.same.push(`${key} (as ${twin.key})`);
    else if (!always && points.every(({ y }) => y === 0)) out.zero.push(key);
    else if (kept.length === mostLines) out.more.push(key);
    else kept.push({ key, points });
  }
  if (!always && kept.every(({ points }) => points.length > 1 && points.every(({ y }) => y === points[0]!.y))) {
    out.constant.push(...kept.map(({ key, points }) => `${key} ${Number(points[0]!.y.toPrecision(4))}`));
    return [];
  }
  return kept.map(({ key, points }) => ({
    name: names[key] ?? key.slice(key.lastIndexOf("/") + 1),
    form: key.startsWith("heldout/") ? "measured" : "smoothed",
    points,
  }));
}

function isSame(some: ChartSeries["points"], others: ChartSeries["points"]): boolean {
  return some.length === others.length && some.every(({ x, y }, i) => x === others[i]!.x && Object.is(y, others[i]!.y));
}

function notesOf({ zero, constant, same, more }: LeftOut): string[] {
  const line = (start: string, keys: readonly string[]): string[] => (keys.length === 0 ? [] : [`${start}: ${keys.join(", ")}`]);
  return [
    ...line("Not drawn, 0 throughout", zero),
    ...line("Not drawn, the same throughout", constant),
    ...line("Not drawn, equal to another line", same),
    ...line("In the page's table only", more),
  ];
}

function pointsOf(key: string, { steps, columns }: MetricColumns): ChartSeries["points"] {
  const at = (name: string, i: number): number | undefined => columns.get(name)?.[i];
  return steps.flatMap((x, i) => {
    const y = at(key, i);
    if (y === undefined) return [];
    const [trials, low, high] = [at(HELD_OUT_TASKS, i), at("heldout/accuracyLow", i), at("heldout/accuracyHigh", i)];
    if (key === HELD_OUT && trials !== undefined && Number.isFinite(y)) return [{ x, y, ...wilson(Math.round(y * trials), trials) }];
    if (key === ACCURACY && low !== undefined && high !== undefined) return [{ x, y, low, high }];
    return [{ x, y }];
  });
}
