/**
 * Credit with a critic: rewards of single tokens, and GAE over them. A step is a sampled token; the prompt, tool output between turns
 * and the boundary of two rows are passed over, so the value after a turn's last token is that before the next turn's first one.
 */
import { PolicyError, expected } from "../../errors.ts";
import type { Credit, CreditContext, Group, TokenValues, Trajectory } from "../../types.ts";
import { gae } from "./gae.ts";
import { klRewards } from "./kl-reward.ts";
import { whitened } from "./whiten.ts";

export interface CriticSettings {
  readonly gamma: number;
  readonly lambda: number;
  /** Weight of KL (k1 of each token) in the reward. */
  readonly klRewardCoef: number;
  /** Scores are cut to [-rewardClip, rewardClip]; 0 leaves them. */
  readonly rewardClip: number;
  /** Taken off the score of an episode whose last turn did not end by itself. */
  readonly missingEosPenalty: number;
  /**
   * What an episode that a limit cut ends with: what the critic says of its last state, in place of the score (both together would
   * count the end twice, and values would grow without bound), or the score, as if the limit were a part of the task.
   */
  readonly cutEpisodes: "bootstrap" | "score";
  readonly whitenRewards: boolean;
  readonly whitenAdvantages: boolean;
}

/** Advantages, returns and values of every scored member. */
export function criticCredit(groups: readonly Group[], context: CreditContext, settings: CriticSettings): (Credit | null)[][] {
  const rewards = new Map<Trajectory, TokenValues>();
  for (const { trajectory, verdict } of groups.flatMap(({ members }) => members)) {
    if (verdict.type !== "scored") continue;
    const score = finalScore(verdict.score, trajectory, settings);
    rewards.set(trajectory, tokenRewards(trajectory, score, klRewards(trajectory, context, settings.klRewardCoef)));
  }
  const scale = settings.whitenRewards ? whitening([...rewards.values()].flat()) : (reward: number) => reward;
  const credits = groups.map(({ members }) =>
    members.map(({ trajectory }) => {
      const own = rewards.get(trajectory);
      return own === undefined ? null : tokenCredit(trajectory, own.map((row) => row.map(scale)), { context, ...settings });
    }),
  );
  return settings.whitenAdvantages ? whitened(credits) : credits;
}

function finalScore(score: number, { rows, end }: Trajectory, { rewardClip, missingEosPenalty, cutEpisodes }: CriticSettings): number {
  const earned = end.type === "done" || cutEpisodes === "score" ? score : 0;
  const held = rewardClip === 0 ? earned : Math.min(rewardClip, Math.max(-rewardClip, earned));
  const last = rows.flatMap(({ spans }) => spans.filter((span) => span.kind === "sampled")).at(-1);
  const ended = last?.finish.type === "eos" || last?.finish.type === "stopString";
  return ended ? held : held - missingEosPenalty;
}

/** Per row: what each sampled token earns, with the score at the last one of the episode. Nothing is added that was not sampled. */
export function tokenRewards({ rows }: Trajectory, score: number, perToken?: TokenValues): Float32Array[] {
  const rewards = rows.map(
    ({ spans }, r) =>
      perToken?.[r]?.slice() ?? new Float32Array(spans.reduce((n, span) => n + (span.kind === "sampled" ? span.ids.length : 0), 0)),
  );
  const last = rewards.findLast(({ length }) => length > 0);
  if (last !== undefined) last[last.length - 1] = last.at(-1)! + score;
  return rewards;
}

function tokenCredit(
  trajectory: Trajectory,
  rewards: TokenValues,
  { context, gamma, lambda, cutEpisodes }: Omit<CriticSettings, "klRewardCoef"> & { readonly context: CreditContext },
): Credit {
  const { values, valueAfter } = context.evidence(trajectory);
  if (values === undefined || valueAfter === undefined)
    throw new PolicyError(expected(`trajectory ${trajectory.id}`, "a critic's values", "none"));
  const after = cutEpisodes === "score" ? 0 : valueAfter;
  const found = gae({ rewards: joinedRows(rewards), values: joinedRows(values), valueAfter: after, gamma, lambda });
  return { trajectory, advantages: cutLike(rewards, found.advantages), returns: cutLike(rewards, found.returns), values };
}

function joinedRows(rows: TokenValues): Float32Array {
  return Float32Array.from(rows.flatMap((row) => [...row]));
}

function cutLike(rows: TokenValues, all: Float32Array): Float32Array[] {
  let start = 0;
  return rows.map(({ length }) => all.slice(start, (start += length)));
}

/** (r - mean) / sqrt(var + 1e-8) + mean over all tokens, as TRL whitens rewards: the mean is kept. Equal rewards stay as they are. */
function whitening(rows: TokenValues): (reward: number) => number {
  const all = joinedRows(rows);
  const count = all.length;
  const mean = all.reduce((sum, value) => sum + value, 0) / count;
  const variance = all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  if (count < 2 || all.every((value) => value === all[0])) return (reward) => reward;
  return (reward) => (reward - mean) / Math.sqrt(variance + 1e-8) + mean;
}
