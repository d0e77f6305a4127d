/**
 * One episode: the policy samples a turn, the environment answers, until one of them ends it. Tokens are appended to rows exactly as
 * they were sampled; whatever fails or takes too long ends this episode alone, as data.
 */
import { setMaxListeners } from "node:events";
import { EnvError, FlywheelError, PolicyError, expected, messageOf } from "../../errors.ts";
import { rng } from "../../random.ts";
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import type { Engine, Env, Episode, EpisodeEnd, Message, SampledSpan, Span, Task, Trajectory, Turn, Verdict } from "../../types.ts";

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

export interface EpisodeOptions {
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
  const { rows, turns, messages, newRows } = play;
  return {
    id: episodeId(task, address),
    task,
    sample: address.sample,
    turns,
    messages,
    end,
    rows: rows.map((spans) => ({ spans })),
    measures: { ...measures, newRows, sampledTokens: play.sampledTokens },
    seconds: (performance.now() - started) / 1000,
  };
}

/** Names an episode in the records of a run. */
export function episodeId({ id }: Task, { stage, step, sample, repeat }: EpisodeAddress): string {
  return `${stage}-${step}/${id}${repeat === 0 ? "" : `+${repeat}`}/${sample}`;
}

/** The state of an episode in play. */
class Play {
  readonly rows: Span[][] = [[]];
  readonly turns: Turn[] = [];
  readonly messages: Message[];
  /** Turns at which the template could not extend the row. */
  newRows = 0;
  sampledTokens = 0;
  readonly #env: Env;
  readonly #task: Task;
  readonly #policy: Policy;
  /** Ids of the row in play. */
  #ids: number[] = [];

  constructor(env: Env, task: Task, policy: Policy) {
    this.#env = env;
    this.#task = task;
    this.#policy = policy;
    this.messages = [...task.prompt];
  }

  async run(episode: Episode, options: EpisodeOptions, signal: AbortSignal): Promise<EpisodeEnd> {
    const { renderer } = this.#policy;
    const tools = this.#env.tools.map(({ spec }) => spec);
    let { ids, state } = renderer.start(this.#task.prompt, tools);
    this.#context(ids);
    for (let index = 0; ; index++) {
      const room = this.#policy.engine.info.contextLength - this.#ids.length;
      if (room < 1) return index === 0 ? overlong(this.#task, this.#ids.length, this.#policy) : { type: "length" };
      const played = playedTurn(options.from, index);
      const span = played?.span ?? (await this.#sample(index, Math.min(room, options.maxTokens), { options, signal }));
      this.rows.at(-1)!.push(span);
      this.#ids.push(...span.ids);
      const { message, parse } = renderer.parseTurn(span.ids, span.finish, tools);
      const turn: Turn = { row: this.rows.length - 1, span: this.rows.at(-1)!.length - 1, message, parse, replies: [] };
      this.messages.push(message);
      const cut = cutShort(span);
      if (cut !== undefined) {
        this.turns.push(turn);
        return cut;
      }
      const step = await untilAborted(Promise.resolve(episode.step(turn, signal)), signal);
      if (played !== undefined) checkReplay(this.#task, step.messages, played.replies);
      this.turns.push({ ...turn, replies: step.messages, ...(step.reward === undefined ? {} : { reward: step.reward }) });
      this.messages.push(...step.messages);
      if (step.done) return { type: "done" };
      if (index + 1 >= options.maxTurns) return { type: "turnLimit" };
      const extension = renderer.extend(state, { ids: span.ids, message, finish: span.finish }, step.messages);
      if (extension.kind === "new-row") {
        this.rows.push([]);
        this.#ids = [];
        this.newRows++;
      }
      ({ ids, state } = extension);
      this.#context(ids);
    }
  }

  #context(ids: readonly number[]): void {
    this.#ids.push(...ids);
    this.rows.at(-1)!.push({ kind: "context", ids });
  }

  async #sample(
    turn: number,
    maxTokens: number,
    { options, signal }: { options: EpisodeOptions; signal: AbortSignal },
  ): Promise<SampledSpan> {
    const { address, temperature, from } = options;
    const begun = from !== undefined && turn === from.turns && (from.tokens ?? 0) > 0 ? spanOf(from.trajectory, turn) : undefined;
    const kept = { ids: begun?.ids.slice(0, from?.tokens) ?? [], logprobs: begun?.logprobs.slice(0, from?.tokens) ?? [] };
    const [span] = await this.#policy.engine.sample({
      prompt: [...this.#ids, ...kept.ids],
      count: 1,
      maxTokens: Math.max(1, maxTokens - kept.ids.length),
      temperature,
      stopIds: this.#policy.renderer.stopIds,
      keys: [rng(address.seed, address.stage, address.step, this.#task.id, address.repeat, address.sample, turn)],
      signal,
    });
    this.sampledTokens += span!.ids.length;
    return { ...span!, ids: [...kept.ids, ...span!.ids], logprobs: [...kept.logprobs, ...span!.logprobs] };
  }
}

function spanOf({ id, turns, rows }: Trajectory, index: number): SampledSpan {
  const turn = turns[index];
  const span = turn === undefined ? undefined : rows[turn.row]?.spans[turn.span];
  if (span?.kind === "sampled") return span;
  throw new PolicyError(expected(`trajectory ${id}`, `a sampled turn ${index + 1} to go on from`, `${turns.length} turns`));
}

/** A turn of the prefix, as it was played. */
function playedTurn(from: EpisodePrefix | undefined, index: number): { span: SampledSpan; replies: readonly Message[] } | undefined {
  if (from === undefined || index >= from.turns) return undefined;
  return { span: spanOf(from.trajectory, index), replies: from.trajectory.turns[index]!.replies };
}

/** Times and numbers drawn by a tool make another episode of it, which the kept tokens do not belong to. */
function checkReplay({ id }: Task, now: readonly Message[], before: readonly Message[]): void {
  const text = (messages: readonly Message[]): string => JSON.stringify(messages.map(({ role, content }) => [role, content]));
  if (text(now) === text(before)) return;
  const remedy = "only an environment that answers the same again can go on from a prefix";
  throw new EnvError(expected(`task ${id}: replay of a turn`, text(before), text(now), remedy));
}

/** A turn that did not end by itself ends the episode: what was cut is never run as a call. */
function cutShort({ finish }: SampledSpan): EpisodeEnd | undefined {
  switch (finish.type) {
    case "eos":
    case "stopString":
      return undefined;
    case "length":
    case "timeout":
      return { type: finish.type };
    case "error":
      return { type: "error", boundary: "policy", message: finish.message };
  }
}

function overlong(task: Task, length: number, { engine }: Policy): never {
  throw new PolicyError(
    expected(
      `task ${task.id}`,
      `a prompt below ${engine.info.contextLength} tokens (the model's context)`,
      String(length),
      "leave the task out or shorten it",
    ),
  );
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

/** The promise, or a rejection as soon as the signal fires; a late result is dropped. */
async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
