/**
 * More sampling in place of more training: the best of n whole episodes, and a beam over turns, both judged by step scores. What it
 * cost is said in sampled tokens, so that it can be held against training.
 */
import { ConfigError, EnvError, expected } from "../../errors.ts";
import { playEpisode, type Policy } from "../../loop/rollout/episode.ts";
import { runPool } from "../../loop/rollout/pool.ts";
import { solutionScore, type SolutionScore } from "../../loop/reward/step-labels.ts";
import type { Env, Task, Trajectory } from "../../types.ts";

/** Scores of the turns of each trajectory, 0 to 1, in order; a process reward model's or any other. */
export type StepScorer = (trajectories: readonly Trajectory[]) => Promise<readonly (readonly number[])[]>;

interface SearchOptions {
  readonly policy: Policy;
  readonly score: StepScorer;
  /** How the scores of its steps become one number for a solution. */
  readonly how: SolutionScore;
  readonly seed: number;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly maxTurns: number;
  readonly concurrency: number;
  readonly deadlineSeconds: number;
  readonly signal?: AbortSignal;
}

interface Found {
  readonly trajectory: Trajectory;
  /** By the step scores; the grader is not asked. */
  readonly score: number;
  /** Tokens sampled for it, thrown away ones included. */
  readonly sampledTokens: number;
}

/** The best of `n` episodes by their step scores; of equals the first. */
export async function bestOfN(env: Env, task: Task, { n, ...options }: SearchOptions & { readonly n: number }): Promise<Found> {
  atLeastOne("bestOfN n", n);
  const places = Array.from({ length: n }, (_, sample) => ({ sample, stage: "best of n" }));
  const played = await playAll(env, task, { ...options, places });
  const [best] = ranked(played, await options.score(played), options.how);
  return { ...best!, sampledTokens: tokensOf(played) };
}

interface BeamOptions extends SearchOptions {
  /** Beginnings that are kept after each turn. */
  readonly width: number;
  /** Next turns that are sampled for each of them. */
  readonly expand: number;
}

/**
 * Beam search over turns: every kept beginning is continued `expand` times by one turn, and the best `width` of all are kept, ended
 * ones among them. Ends when all kept ones have ended. The environment must answer the same when a turn is told again.
 */
export async function beamSearch(env: Env, task: Task, { width, expand, ...options }: BeamOptions): Promise<Found> {
  atLeastOne("beamSearch width", width);
  atLeastOne("beamSearch expand", expand);
  let beam: Ranked[] = [];
  let sampledTokens = 0;
  for (let turn = 0; turn < options.maxTurns; turn++) {
    const open = turn === 0 ? [undefined] : beam.map(({ trajectory }) => trajectory).filter(isOpen);
    if (open.length === 0) break;
    const places = open.flatMap((trajectory, b) =>
      Array.from({ length: turn === 0 ? width * expand : expand }, (_, e) => ({
        stage: `beam ${turn}`,
        sample: b * expand + e,
        ...(trajectory === undefined ? {} : { from: { trajectory, turns: turn } }),
      })),
    );
    const next = await playAll(env, task, { ...options, maxTurns: turn + 1, places });
    sampledTokens += tokensOf(next);
    const ended = beam.filter(({ trajectory }) => !isOpen(trajectory));
    beam = [...ended, ...ranked(next, await options.score(next), options.how)].sort((a, b) => b.score - a.score).slice(0, width);
  }
  return { ...beam[0]!, sampledTokens };
}

interface Ranked {
  readonly trajectory: Trajectory;
  readonly score: number;
}

function ranked(trajectories: readonly Trajectory[], scores: readonly (readonly number[])[], how: SolutionScore): Ranked[] {
  const all = trajectories.map((trajectory, i) => ({ trajectory, score: solutionScore(scores[i]!, how) }));
  return all.sort((a, b) => b.score - a.score);
}

/** Cut by our own limit of turns, so there is more to come. */
const isOpen = ({ end }: Trajectory): boolean => end.type === "turnLimit";

const tokensOf = (played: readonly Trajectory[]): number => played.reduce((sum, { measures }) => sum + (measures["sampledTokens"] ?? 0), 0);

interface Place {
  readonly stage: string;
  readonly sample: number;
  readonly from?: { readonly trajectory: Trajectory; readonly turns: number };
}

/** Plays all places; episodes that a fault or the clock ended are nothing to choose from. */
async function playAll(
  env: Env,
  task: Task,
  { places, concurrency, signal, ...options }: Omit<SearchOptions, "score" | "how"> & { readonly places: readonly Place[] },
): Promise<Trajectory[]> {
  const jobs = places.map(({ stage, sample, from }) => (jobSignal: AbortSignal): Promise<Trajectory> => {
    const address = { seed: options.seed, stage, step: 0, sample, repeat: 0 };
    return playEpisode(env, task, { ...options, address, signal: jobSignal, ...(from === undefined ? {} : { from }) });
  });
  const played = await runPool(jobs, { concurrency, ...(signal === undefined ? {} : { signal }) });
  const sound = played.filter(({ end }) => end.type !== "error" && end.type !== "timeout");
  const [first] = played;
  if (sound.length === 0 && first !== undefined) {
    const got = first.end.type === "error" ? `${first.end.boundary}: ${first.end.message}` : first.end.type;
    throw new EnvError(expected(`search for task ${task.id}`, "an episode that ran", got));
  }
  return sound;
}

function atLeastOne(what: string, value: number): void {
  if (!Number.isInteger(value) || value < 1) throw new ConfigError(expected(what, "an integer of at least 1", String(value)));
}
