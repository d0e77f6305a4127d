/** The state of an episode in play: rows of tokens as they were sampled, turns, and whose turn it is. */
import { EnvError, PolicyError, expected } from "../../errors.ts";
import { rng } from "../../random.ts";
import type { RenderState } from "../../compute/text/renderer.ts";
import type { Env, Episode, EpisodeEnd, Message, NextAgent, SampledSpan, Span, Task, ToolSpec, Trajectory, Turn } from "../../types.ts";
import { compacted, ruleSummary, SUMMARY_REQUEST, withNote, type Exchange } from "./compaction.ts";
import type { EpisodeOptions, EpisodePrefix, Policy } from "./episode.ts";
import { addTurn, withOpening } from "./scripted.ts";

export class Play {
  readonly rows: Span[][] = [];
  readonly turns: Turn[] = [];
  readonly messages: Message[];
  /** Turns at which the template could not extend the row. */
  newRows = 0;
  compactions = 0;
  sampledTokens = 0;
  readonly #env: Env;
  readonly #task: Task;
  readonly #policy: Policy;
  /** Ids of the row in play. */
  #ids: number[] = [];
  /** Who speaks, what that agent was told first, and its turns since; one that is not trained has no row. */
  #speaker: NextAgent;
  #exchanges: Exchange[] = [];
  /** The conversation that the row began with, and how many exchanges came before it. */
  #opening: { readonly messages: readonly Message[]; readonly after: number } = { messages: [], after: 0 };

  constructor(env: Env, task: Task, policy: Policy) {
    this.#env = env;
    this.#task = task;
    this.#policy = policy;
    this.#speaker = { agent: env.agent ?? "", prompt: task.prompt };
    this.messages = [...task.prompt];
  }

  async run(episode: Episode, options: EpisodeOptions, signal: AbortSignal): Promise<EpisodeEnd> {
    const { renderer, engine } = this.#policy;
    const tools = specsOf(this.#env);
    const shown = episode.opening === undefined ? "" : await untilAborted(episode.opening(signal), signal);
    const prompt = withOpening(this.#task.prompt, shown);
    if (options.from !== undefined) checkReplay(this.#task, prompt, options.from.trajectory.messages.slice(0, prompt.length));
    this.messages.splice(0, prompt.length, ...prompt);
    this.#speaker = { ...this.#speaker, prompt };
    let state = this.#begin(prompt);
    for (let index = 0; ; index++) {
      const room = engine.info.contextLength - this.#ids.length;
      if (room < 1) return index === 0 ? overlong(this.#task, this.#ids.length, this.#policy) : { type: "length" };
      const played = playedTurn(options.from, index);
      const span = played?.span ?? (await this.#sample(index, Math.min(room, options.maxTokens), { options, signal }));
      this.#add(span);
      const { message, parse } = renderer.parseTurn(span.ids, span.finish, tools);
      const turn = this.#turn(message, parse);
      const { trained = true } = this.#speaker;
      this.messages.push(message);
      const cut = cutShort(span);
      if (cut !== undefined) {
        addTurn(this.turns, { turn, step: { messages: [], done: true }, trained });
        return cut;
      }
      const step = await untilAborted(Promise.resolve(episode.step(turn, signal)), signal);
      if (played !== undefined) checkReplay(this.#task, step.messages, played.replies);
      addTurn(this.turns, { turn, step, trained });
      this.messages.push(...step.messages);
      if (step.done) return { type: "done" };
      if (step.limit !== undefined) return { type: step.limit };
      if (index + 1 >= options.maxTurns) return { type: "turnLimit" };
      if (step.next !== undefined) {
        this.#speaker = step.next;
        this.#exchanges = [];
        state = this.#begin(step.next.prompt);
        continue;
      }
      this.#exchanges.push({ message, replies: step.messages });
      const extension = renderer.extend(state, { ids: span.ids, message, finish: span.finish }, step.messages);
      const begun = extension.kind === "new-row";
      const length = extension.ids.length + (begun ? 0 : this.#ids.length);
      if (this.#isLong(length, options)) {
        state = this.#begin(await this.#compact(index, { options, signal }));
        this.compactions++;
        continue;
      }
      if (begun) this.#open();
      if (begun) this.newRows++;
      this.#add({ kind: "context", ids: extension.ids });
      ({ state } = extension);
    }
  }

  /** Begins a row with this conversation. */
  #begin(messages: readonly Message[]): RenderState {
    const { ids, state } = this.#policy.renderer.start(messages, specsOf(this.#env));
    this.#opening = { messages, after: this.#exchanges.length };
    this.#open();
    this.#add({ kind: "context", ids });
    return state;
  }

  #open(): void {
    this.#ids = [];
    if (this.#speaker.trained !== false) this.rows.push([]);
  }

  #add(span: Span): void {
    for (const id of span.ids) this.#ids.push(id);
    if (this.#speaker.trained !== false) this.rows.at(-1)!.push(span);
  }

  #turn(message: Message, parse: Turn["parse"]): Turn {
    const { agent } = this.#speaker;
    const place = { row: this.rows.length - 1, span: (this.rows.at(-1)?.length ?? 0) - 1 };
    return { ...place, message, parse, replies: [], ...(agent === "" ? {} : { agent }) };
  }

  #isLong(length: number, options: EpisodeOptions): boolean {
    const { compaction = "none", keepTurns = 4 } = options;
    return compaction !== "none" && this.#exchanges.length > keepTurns && length > this.#rowLimit(options);
  }

  /** Tokens beyond which a row is left. */
  #rowLimit({ compactAt = 0 }: EpisodeOptions): number {
    return compactAt === 0 ? Math.floor(0.75 * this.#policy.engine.info.contextLength) : compactAt;
  }

  /** The conversation that the next row begins with. */
  async #compact(turn: number, { options, signal }: { options: EpisodeOptions; signal: AbortSignal }): Promise<readonly Message[]> {
    const { compaction = "none", keepTurns = 4 } = options;
    const { prompt } = this.#speaker;
    switch (compaction) {
      case "none":
      case "last-turns":
        return compacted(prompt, this.#exchanges, { keepTurns });
      case "rule-summary": {
        const written = ruleSummary(this.#exchanges, { keepTurns, tokens: this.#rowLimit(options) });
        return compacted(prompt, this.#exchanges, { keepTurns, written });
      }
      case "model-summary": {
        // What is asked for is sampled outside of all rows: it comes back as context, and nothing of it is trained.
        const { renderer, engine } = this.#policy;
        const since = this.#exchanges.slice(this.#opening.after).flatMap(({ message, replies }) => [message, ...replies]);
        const asked = renderer.start(withNote([...this.#opening.messages, ...since], SUMMARY_REQUEST)).ids;
        const room = engine.info.contextLength - asked.length;
        if (room < 1) return compacted(prompt, this.#exchanges, { keepTurns });
        const maxTokens = Math.min(room, options.maxTokens);
        const span = await this.#draw({ prompt: asked, maxTokens, parts: [turn, "summary"] }, { options, signal });
        const { message } = renderer.parseTurn(span.ids, span.finish, []);
        return compacted(prompt, this.#exchanges, { keepTurns, written: message.content.trim() });
      }
    }
  }

  async #sample(
    turn: number,
    maxTokens: number,
    { options, signal }: { options: EpisodeOptions; signal: AbortSignal },
  ): Promise<SampledSpan> {
    const { from } = options;
    const begun = from !== undefined && turn === from.turns && (from.tokens ?? 0) > 0 ? spanOf(from.trajectory, turn) : undefined;
    const kept = { ids: begun?.ids.slice(0, from?.tokens) ?? [], logprobs: begun?.logprobs.slice(0, from?.tokens) ?? [] };
    const request = { prompt: [...this.#ids, ...kept.ids], maxTokens: Math.max(1, maxTokens - kept.ids.length), parts: [turn] };
    const span = await this.#draw(request, { options, signal });
    return { ...span, ids: [...kept.ids, ...span.ids], logprobs: [...kept.logprobs, ...span.logprobs] };
  }

  async #draw(
    { prompt, maxTokens, parts }: { prompt: readonly number[]; maxTokens: number; parts: readonly (number | string)[] },
    { options: { address, temperature }, signal }: { options: EpisodeOptions; signal: AbortSignal },
  ): Promise<SampledSpan> {
    const [span] = await this.#policy.engine.sample({
      prompt,
      count: 1,
      maxTokens,
      temperature,
      stopIds: this.#policy.renderer.stopIds,
      keys: [rng(address.seed, address.stage, address.step, this.#task.id, address.repeat, address.sample, ...parts)],
      signal,
    });
    this.sampledTokens += span!.ids.length;
    return span!;
  }
}

const specsOf = ({ tools }: Env): ToolSpec[] => tools.map(({ spec }) => spec);

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

/** The promise, or a rejection as soon as the signal fires; a late result is dropped. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
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
