/**
 * Monte-Carlo step labels: every prefix of an episode is completed N times by the policy, and what comes of it is the label of the
 * prefix's last step (Math-Shepherd, arXiv:2312.08935). Nobody labels by hand; the price is in sampled tokens, which are counted.
 */
import { ConfigError, expected } from "../../errors.ts";
import { playEpisode, type EpisodePrefix, type Policy } from "../../loop/rollout/episode.ts";
import { runPool } from "../../loop/rollout/pool.ts";
import { scoreTrajectory } from "../../loop/reward/score.ts";
import { stepLabel, type StepLabelKind } from "../../loop/reward/step-labels.ts";
import type { Env, Message, Scored, Trajectory } from "../../types.ts";

export interface LabelOptions {
  readonly policy: Policy;
  /** Completions of each prefix (N). */
  readonly completions: number;
  readonly kind: StepLabelKind;
  /** What a step is: an assistant turn, or what stands between separators in the one turn of an episode. */
  readonly steps: "turns" | { readonly separator: string };
  readonly seed: number;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly maxTurns: number;
  readonly concurrency: number;
  readonly deadlineSeconds: number;
  readonly signal?: AbortSignal;
}

export interface LabelledSteps {
  readonly trajectory: Trajectory;
  /** What of the trajectory each step ends with. */
  readonly prefixes: readonly Required<EpisodePrefix>[];
  /** Text of each step, with its separator. */
  readonly steps: readonly string[];
  /** 0 to 1; null where no completion could be graded. */
  readonly labels: readonly (number | null)[];
  readonly completions: number;
  readonly sampledTokens: number;
}

/**
 * Labels every step of graded episodes. The last prefix is the whole episode, whose score is known, so it costs nothing. Random
 * addresses are the labels' own: seed, episode, prefix and completion, so training draws the same numbers with or without labels.
 */
export async function labelSteps(env: Env, episodes: readonly Scored[], options: LabelOptions): Promise<LabelledSteps[]> {
  const { completions, concurrency, kind, signal } = options;
  if (!Number.isInteger(completions) || completions < 1)
    throw new ConfigError(expected("labelSteps completions", "an integer of at least 1", String(completions)));
  const prefixes_E = episodes.map(({ trajectory }) => prefixesOf(trajectory, options));
  const places = prefixes_E.flatMap((prefixes) => prefixes.slice(0, -1));
  const jobs = places.flatMap((prefix) =>
    Array.from(
      { length: completions },
      (_, sample) => (jobSignal: AbortSignal) => complete(env, prefix, { ...options, sample, signal: jobSignal }),
    ),
  );
  const done = await runPool(jobs, { concurrency, ...(signal === undefined ? {} : { signal }) });
  let next = 0;
  return episodes.map(({ trajectory, verdict }, e): LabelledSteps => {
    const prefixes = prefixes_E[e]!;
    const scored_K = prefixes.slice(0, -1).map(() => done.slice(next, (next += completions)));
    const own = verdict.type === "scored" ? [verdict.score as number] : [null];
    return {
      trajectory,
      prefixes,
      steps: stepTexts(prefixes, options),
      labels: [...scored_K.map((runs) => runs.map(({ score }) => score)), own].map((scores) => stepLabel(scores, kind)),
      completions: scored_K.length * completions,
      sampledTokens: scored_K.flat().reduce((sum, { tokens }) => sum + tokens, 0),
    };
  });
}

async function complete(
  env: Env,
  from: Required<EpisodePrefix>,
  { sample, ...options }: LabelOptions & { readonly sample: number },
): Promise<{ readonly score: number | null; readonly tokens: number }> {
  const { trajectory, turns, tokens } = from;
  const address = { seed: options.seed, stage: `label ${trajectory.id} ${turns}+${tokens}`, step: 0, sample, repeat: 0 };
  const completed = await playEpisode(env, trajectory.task, { ...options, from, address });
  const abort = options.signal === undefined ? {} : { signal: options.signal };
  const { verdict } = await scoreTrajectory(env.reward, completed, abort);
  return { score: verdict.type === "scored" ? verdict.score : null, tokens: completed.measures["sampledTokens"] ?? 0 };
}

/** Where the steps of an episode end; the last prefix is all of it. */
function prefixesOf(trajectory: Trajectory, { steps, policy }: LabelOptions): Required<EpisodePrefix>[] {
  if (steps === "turns") return trajectory.turns.map((_turn, t) => ({ trajectory, turns: t + 1, tokens: 0 }));
  const { turns, rows, id } = trajectory;
  const [turn, ...others] = turns;
  if (turn === undefined || others.length > 0) {
    const remedy = 'label a dialogue with steps: "turns"';
    throw new ConfigError(expected(`labelSteps ${id}`, "one turn, to be cut at separators", `${turns.length} turns`, remedy));
  }
  const span = rows[turn.row]!.spans[turn.span]!;
  const ends = span.ids.flatMap((_token, t): number[] => {
    const { tokenizer } = policy.renderer;
    const [before, after] = [t, t + 1].map((count) => tokenizer.decode(span.ids.slice(0, count)).split(steps.separator).length);
    return after! > before! ? [t + 1] : [];
  });
  const inside = ends.filter((end) => end < span.ids.length).map((tokens) => ({ trajectory, turns: 0, tokens }));
  return [...inside, { trajectory, turns: 1, tokens: 0 }];
}

function stepTexts(prefixes: readonly Required<EpisodePrefix>[], { steps, policy }: LabelOptions): string[] {
  if (steps === "turns") return prefixes.map(({ trajectory, turns }) => trajectory.turns[turns - 1]!.message.content);
  const [{ row, span }] = prefixes[0]!.trajectory.turns as [Trajectory["turns"][number]];
  const { ids } = prefixes[0]!.trajectory.rows[row]!.spans[span]!;
  const { tokenizer, stopIds } = policy.renderer;
  const stop = ids.findIndex((id) => stopIds.includes(id));
  const length = stop < 0 ? ids.length : stop;
  const startOf = (k: number): number => (k === 0 ? 0 : prefixes[k - 1]!.tokens);
  return prefixes.map(({ tokens }, k) => tokenizer.decode(ids.slice(startOf(k), tokens === 0 ? length : tokens)));
}

/** A line of a file that a process reward model trains on: steps of one answer, or a dialogue with a label for each assistant turn. */
type StepRow =
  | { readonly prompt: readonly Message[]; readonly steps: readonly string[]; readonly labels: readonly number[] }
  | { readonly messages: readonly Message[]; readonly labels: readonly number[] };

/** Rows of the labelled steps. Steps that could not be labelled end their row: what follows them was judged with them. */
export function stepRows(labelled: readonly LabelledSteps[], separator: string): StepRow[] {
  return labelled.flatMap(({ trajectory, steps, labels }): StepRow[] => {
    const known = labels.slice(0, labels.includes(null) ? labels.indexOf(null) : undefined) as number[];
    if (known.length === 0) return [];
    const { task, turns } = trajectory;
    if (turns.length === 1) {
      const trimmed = steps.slice(0, known.length).map((step) => (step.endsWith(separator) ? step.slice(0, -separator.length) : step));
      return [{ prompt: task.prompt, steps: trimmed, labels: known }];
    }
    const told = turns
      .slice(0, known.length)
      .flatMap(({ message, replies }, t) => (t === known.length - 1 ? [message] : [message, ...replies]));
    return [{ messages: [...task.prompt, ...told], labels: known }];
  });
}
