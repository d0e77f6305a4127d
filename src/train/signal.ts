/** The live detector: says once, in one line, why a run has nothing to learn from, and stops a run whose grader fails. */
import { RewardError, expected } from "../errors.ts";
import type { Group, Scored } from "../types.ts";
import { zeroVariance, scoresOf } from "../loop/advantage/group.ts";
import { isTruncated } from "../loop/batch/rows.ts";

export interface SignalMeasures {
  /** Share of groups whose rewards are all the same; samples without a group are compared with those of the other tasks. */
  readonly fracZeroStd: number;
  /** Share of rollouts that a limit ended, and of those that a limit on tokens ended. */
  readonly truncated: number;
  readonly cut: number;
  readonly unscorable: number;
  readonly reward: number;
  /** Rollouts that were not scored, by reason. */
  readonly reasons: ReadonlyMap<string, number>;
}

/** What one step's groups say of the signal. Rewards are averaged over rollouts, never over turns. */
export function signalOf(groups: readonly Group[]): SignalMeasures {
  const members = groups.flatMap((group) => group.members);
  const scores = scoresOf(members.map(({ verdict }) => verdict)).filter((score) => score !== null);
  const share = (count: number, of: number): number => (of === 0 ? 0 : count / of);
  return {
    fracZeroStd: share(silent(groups), groups.length),
    truncated: share(members.filter(({ trajectory }) => isTruncated(trajectory)).length, members.length),
    unscorable: share(members.length - scores.length, members.length),
    cut: share(members.filter(({ trajectory }) => trajectory.end.type === "length").length, members.length),
    reward: scores.length === 0 ? NaN : scores.reduce((a, b) => a + b, 0) / scores.length,
    reasons: reasonsOf(members),
  };
}

/** Groups without variance. A greedy answer is compared with its group's; a group of one stands in the group of all such. */
function silent(groups: readonly Group[]): number {
  const same = (members: readonly Scored[]): boolean => zeroVariance(scoresOf(members.map(({ verdict }) => verdict)));
  const isAlone = ({ members, greedy }: Group): boolean => members.length === 1 && greedy === undefined;
  const alone = groups.filter(isAlone);
  const compared = ({ members, greedy }: Group): readonly Scored[] => (greedy === undefined ? members : [...members, greedy]);
  const equal = groups.filter((group) => !isAlone(group) && same(compared(group)));
  return equal.length + (same(alone.flatMap(({ members }) => members)) ? alone.length : 0);
}

const window = 3;

/** Watches the last three steps. */
export class SignalDetector {
  readonly #recent: SignalMeasures[] = [];
  readonly #maxTokens: number;
  #told = false;

  constructor(maxTokens: number) {
    this.#maxTokens = maxTokens;
  }

  /** A warning to print, if there is one now. Throws if more than a fifth of all rollouts could not be scored. */
  observe(measures: SignalMeasures): string | undefined {
    this.#recent.push(measures);
    if (this.#recent.length > window) this.#recent.shift();
    if (this.#recent.length < window) return undefined;
    type Share = Exclude<keyof SignalMeasures, "reasons">;
    const average = (key: Share): number => this.#recent.reduce((sum, step) => sum + step[key], 0) / window;
    if (average("unscorable") > 0.2 + 1e-9) {
      throw new RewardError(
        expected(
          `rewards of the last ${window} steps`,
          "at most 20 % unscored rollouts",
          `${percent(average("unscorable"))}`,
          `the most common reason: ${this.#commonReason()}`,
        ),
      );
    }
    if (this.#told || average("fracZeroStd") < 1) return undefined;
    this.#told = true;
    return `no learning signal: ${this.#cause({ truncated: average("truncated"), cut: average("cut"), reward: average("reward") })}`;
  }

  #commonReason(): string {
    const counts = new Map<string, number>();
    for (const { reasons } of this.#recent) {
      for (const [reason, count] of reasons) counts.set(reason, (counts.get(reason) ?? 0) + count);
    }
    const [reason, count] = [...counts].sort((a, b) => b[1] - a[1])[0]!;
    return `${reason} (${count} times)`;
  }

  #cause({ truncated, cut, reward }: Record<"truncated" | "cut" | "reward", number>): string {
    const level = reward === 0 ? "reward 0 everywhere" : `the same reward (${reward.toFixed(2)}) within every group`;
    if (cut > 0.5) return `${percent(cut)} of completions cut at ${this.#maxTokens} tokens, ${level}; raise rollout.maxTokens`;
    if (truncated > 0.5) return `${percent(truncated)} of episodes ended by their limit of turns, ${level}; raise rollout.maxTurns`;
    if (reward === 0) return `${level}; the tasks are too hard for this model, or the grader does not read its answers`;
    return `${level}; the tasks are too easy or the samples too much alike (raise rollout.temperature or algo.groupSize)`;
  }
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;

function reasonsOf(members: readonly Scored[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { verdict } of members) if (verdict.type !== "scored") counts.set(verdict.reason, (counts.get(verdict.reason) ?? 0) + 1);
  return counts;
}
