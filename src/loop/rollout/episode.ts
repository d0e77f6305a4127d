/**
 * One episode: the policy samples a turn, the environment answers, until one of them ends it. Tokens are appended to rows exactly as
 * they were sampled; whatever fails or takes too long ends this episode alone, as data.
 */
import { setMaxListeners } from "node:events";
import { EnvError, FlywheelError, PolicyError, expected, messageOf } from "../../errors.ts";
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import type { Engine, Env, Episode, EpisodeEnd, Task, Trajectory, Verdict } from "../../types.ts";
import type { CompactionOptions } from "./compaction.ts";
import { Play, untilAborted } from "./play.ts";

/** Who samples. */
export interface Policy {
  readonly engine: Pick<Engine, "sample" | "info">;
  readonly renderer: ChatRenderer;
  /** Plays whole episodes in place of the environment: an agent of its own, which asks this policy. A verdict that it has is the reward. */
  readonly play?: (task: Task, options: EpisodeOptions) => Promise<{ readonly trajectory: Trajectory; readonly verdict?: Verdict }>;
}

/** Address of an episode's randomness; the turn is added. */
interface EpisodeAddress {
  readonly seed: number;
  readonly stage: string;
  readonly step: number;
  readonly sample: number;
  /** How often the task came before in this step: twice where a pass over few tasks ends and the next one begins. */
  readonly repeat: number;
}

export interface EpisodeOptions extends CompactionOptions {
  readonly temperature: number;
  /** Tokens of one turn. */
  readonly maxTokens: number;
  readonly maxTurns: number;
  readonly deadlineSeconds: number;
  readonly address: EpisodeAddress;
  /** Goes on from here in place of the beginning. */
  readonly from?: EpisodePrefix;
  readonly signal?: AbortSignal;
}

/**
 * The beginning of an episode that was played before: its first turns, and the first tokens of the turn after them. The tokens are
 * kept as they were sampled, and the environment is told the turns again; it must answer as it did.
 */
export interface EpisodePrefix {
  readonly trajectory: Trajectory;
  readonly turns: number;
  /** 0 if left out. */
  readonly tokens?: number;
}

/** Milliseconds that closing an episode may take before it is left behind; less where somebody waits for the end of it all. */
const closing = { usual: 30_000, aborted: 1000 };

/** Plays one episode. Throws only for faults of the policy (and when the caller aborts); all else is in the trajectory's `end`. */
export async function playEpisode(
  env: Env,
  task: Task,
  { policy, ...options }: EpisodeOptions & { readonly policy: Policy },
): Promise<Trajectory> {
  const started = performance.now();
  const deadline = new AbortController();
  const timer = setTimeout(
    () => deadline.abort(new EnvError(`episode: its deadline of ${options.deadlineSeconds} s has passed`)),
    options.deadlineSeconds * 1000,
  );
  const signal = options.signal === undefined ? deadline.signal : AbortSignal.any([deadline.signal, options.signal]);
  setMaxListeners(0, signal);
  const { compaction = "none" } = options;
  if (options.from !== undefined && compaction !== "none") {
    throw new EnvError(expected(`task ${task.id}: an episode that goes on from a prefix`, "no compaction", compaction));
  }
  const play = new Play(env, task, policy);
  let end: EpisodeEnd;
  let measures: Readonly<Record<string, number>> = {};
  try {
    const episode = env.start(task);
    try {
      end = await play.run(episode, options, signal);
      measures = episode.measures();
    } finally {
      await close(episode, signal.aborted ? closing.aborted : closing.usual);
    }
  } catch (cause) {
    if (cause instanceof PolicyError) throw cause;
    options.signal?.throwIfAborted();
    const boundary = cause instanceof FlywheelError ? cause.boundary : "environment";
    end = deadline.signal.aborted ? { type: "timeout" } : { type: "error", boundary, message: messageOf(cause) };
  } finally {
    clearTimeout(timer);
  }
  const { address } = options;
  const { rows, turns, messages, newRows, compactions } = play;
  const shortened = compaction === "none" ? {} : { compactions };
  return {
    id: episodeId(task, address),
    task,
    sample: address.sample,
    turns,
    messages,
    end,
    rows: rows.map((spans) => ({ spans })),
    measures: { ...measures, ...shortened, newRows, sampledTokens: play.sampledTokens },
    seconds: (performance.now() - started) / 1000,
  };
}

/** Names an episode in the records of a run. */
export function episodeId({ id }: Task, { stage, step, sample, repeat }: EpisodeAddress): string {
  return `${stage}-${step}/${id}${repeat === 0 ? "" : `+${repeat}`}/${sample}`;
}

async function close(episode: Episode, milliseconds: number): Promise<void> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new EnvError(`episode: not closed within ${milliseconds} ms`)), milliseconds);
  try {
    await untilAborted(Promise.resolve(episode[Symbol.asyncDispose]()), late.signal);
  } finally {
    clearTimeout(timer);
  }
}
