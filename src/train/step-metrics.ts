/** The numbers of one step, by the names that the report knows. */
import { isTruncated, type BuiltBatch } from "../loop/batch/rows.ts";
import { zeroVariance } from "../loop/advantage/group.ts";
import type { Group, Scored } from "../types.ts";
import { mean, meanMeasures, type Evaluation } from "./evaluate/evaluate.ts";
import type { MetricsRow } from "./record/metrics.ts";
import type { Health } from "./collapse.ts";
import type { SignalMeasures } from "./signal.ts";

interface StepFacts {
  readonly step: number;
  /** All groups that were sampled; `replaced` of them train nothing. */
  readonly groups: readonly Group[];
  readonly replaced: number;
  readonly built: BuiltBatch;
  readonly signals: SignalMeasures;
  readonly health: Health;
  readonly coefficients: Readonly<Record<string, number>>;
  /** Of the evidence, the critic and the update. */
  readonly parts: readonly Readonly<Record<string, number>>[];
  readonly seconds: { readonly rollout: number; readonly evidence: number; readonly update: number };
}

export function stepMetrics({ step, groups, replaced, built, signals, health, coefficients, parts, seconds }: StepFacts): MetricsRow {
  const members = groups.flatMap((group) => group.members);
  const { sampledTokens: meanTokens = 0, ...measures } = meanMeasures(members);
  const lengths = members.map(lengthOf);
  // What environments and graders name stands first: it never hides a number of ours.
  return {
    ...measures,
    ...componentMeans(members),
    step,
    "reward/mean": signals.reward,
    "reward/std": deviation(scoresOf(members)),
    "reward/groupStd": mean(groups.map((group) => (zeroVariance(scoresOf(group.members)) ? 0 : deviation(scoresOf(group.members))))),
    fracZeroStd: signals.fracZeroStd,
    truncated: signals.truncated,
    unscorable: signals.unscorable,
    "length/mean": meanTokens,
    "length/min": Math.min(...lengths),
    "length/max": Math.max(...lengths),
    "length/finished": mean(members.filter(({ trajectory }) => !isTruncated(trajectory)).map(lengthOf)),
    "batch/tokens": built.tokens,
    "batch/skipped": built.batch === null ? 1 : 0,
    "batch/rows": built.batch === null ? 0 : built.batch.units.reduce((sum, { rows }) => sum + rows.length, 0),
    "batch/replaced": replaced,
    "entropy/sampled": health.entropy,
    repetition: health.repetition,
    ...Object.fromEntries(Object.entries(coefficients).map(([name, value]) => [`coefficient/${name}`, value])),
    ...Object.fromEntries(parts.flatMap((part) => Object.entries(part))),
    "seconds/rollout": seconds.rollout,
    "seconds/evidence": seconds.evidence,
    "seconds/update": seconds.update,
    "tokensPerSecond/rollout": lengths.reduce((a, b) => a + b, 0) / Math.max(seconds.rollout, 1e-9),
  };
}

const lengthOf = ({ trajectory }: Scored): number => trajectory.measures["sampledTokens"] ?? 0;

const scoresOf = (members: readonly Scored[]): number[] =>
  members.flatMap(({ verdict }) => (verdict.type === "scored" ? [verdict.score as number] : []));

/** Sample standard deviation over the whole batch; 0 for fewer than two. */
function deviation(scores: readonly number[]): number {
  if (scores.length < 2) return 0;
  const centre = mean(scores);
  return Math.sqrt(scores.reduce((sum, score) => sum + (score - centre) ** 2, 0) / (scores.length - 1));
}

/** Mean of each reward component over the rollouts that have it. */
function componentMeans(members: readonly Scored[]): Record<string, number> {
  const values = new Map<string, number[]>();
  for (const { verdict } of members) {
    if (verdict.type !== "scored") continue;
    for (const [name, value] of Object.entries(verdict.components)) values.set(name, [...(values.get(name) ?? []), value]);
  }
  return Object.fromEntries([...values].map(([name, list]) => [`reward/${name}`, mean(list)]));
}

/** The held-out row of a step. */
export function evaluationMetrics(step: number, evaluation: Evaluation): MetricsRow {
  const measures = Object.fromEntries(Object.entries(evaluation.measures).map(([name, value]) => [`heldout/${name}`, value]));
  return {
    step,
    "heldout/success": evaluation.success,
    "heldout/tasks": evaluation.scored,
    "heldout/score": evaluation.score,
    ...measures,
    "seconds/heldout": evaluation.seconds,
  };
}
