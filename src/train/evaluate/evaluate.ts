/** Held-out evaluation: each task once (or n times), with the interval that so few tasks allow. */
import type { Policy } from "../../loop/rollout/episode.ts";
import type { Env, Scored, Task } from "../../types.ts";
import { collectGroups, type CollectOptions } from "../collect.ts";
import { passAtK, wilson, type Interval } from "./statistics.ts";

interface EvaluateOptions extends Omit<CollectOptions, "stage" | "groupSize"> {
  /** Samples of each task; 1 unless pass@k is wanted. */
  readonly samples?: number;
}

export interface Evaluation {
  /** Mean score over scored samples; NaN if none was scored. */
  readonly score: number;
  /** Share of scored samples with full score (at least 1). */
  readonly success: number;
  readonly interval: Interval;
  readonly scored: number;
  readonly total: number;
  /** By task: whether the first sample succeeded; false where it was not scored. */
  readonly successes: readonly boolean[];
  /** Unbiased pass@k for k = 1, 2, 4, ... up to the number of samples. */
  readonly passAtK: Readonly<Record<string, number>>;
  /** Means of the environment's measures over all samples. */
  readonly measures: Readonly<Record<string, number>>;
  readonly samples: readonly Scored[];
  readonly seconds: number;
  readonly sampledTokens: number;
}

/** Plays and grades every task `samples` times. */
export async function evaluate(
  env: Env,
  tasks: readonly Task[],
  { policy, samples = 1, ...options }: EvaluateOptions & { readonly policy: Policy },
): Promise<Evaluation> {
  const started = performance.now();
  const groups = await collectGroups(env, tasks, { ...options, policy, stage: "heldout", groupSize: samples });
  const all = groups.flatMap(({ members }) => members);
  const scores = all.flatMap(({ verdict }) => (verdict.type === "scored" ? [verdict.score as number] : []));
  const right = scores.filter((score) => score >= 1).length;
  const ks = Array.from({ length: Math.floor(Math.log2(samples)) + 1 }, (_, i) => 2 ** i);
  return {
    score: mean(scores),
    success: scores.length === 0 ? NaN : right / scores.length,
    interval: wilson(right, Math.max(1, scores.length)),
    scored: scores.length,
    total: all.length,
    successes: groups.map(({ members }) => succeeded(members[0]!)),
    passAtK: Object.fromEntries(
      ks.map((k) => [String(k), mean(groups.map(({ members }) => passAtK(members.length, members.filter(succeeded).length, k)))]),
    ),
    measures: meanMeasures(all),
    samples: all,
    seconds: (performance.now() - started) / 1000,
    sampledTokens: all.reduce((sum, { trajectory }) => sum + (trajectory.measures["sampledTokens"] ?? 0), 0),
  };
}

function succeeded({ verdict }: Scored): boolean {
  return verdict.type === "scored" && verdict.score >= 1;
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? NaN : values.reduce((a, b) => a + b, 0) / values.length;
}

/** Mean of each measure over the rollouts that have it. */
export function meanMeasures(samples: readonly Scored[]): Record<string, number> {
  const sums = new Map<string, { sum: number; count: number }>();
  for (const { trajectory } of samples) {
    for (const [name, value] of Object.entries(trajectory.measures)) {
      const held = sums.get(name) ?? { sum: 0, count: 0 };
      sums.set(name, { sum: held.sum + value, count: held.count + 1 });
    }
  }
  return Object.fromEntries([...sums].map(([name, { sum, count }]) => [name, sum / count]));
}
