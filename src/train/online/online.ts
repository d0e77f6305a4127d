/**
 * A model that learns from its users while it answers them: `generate`, and `learn` from what somebody says of the answers. One piece
 * of feedback is one bounded update, durable before `learn` returns, and can be undone. Adapters by name (a user, a topic) learn apart.
 */
import { randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import type { OpenedPolicy } from "../../compute/policy/open.ts";
import { encodeAnswer } from "../../compute/text/dialogue.ts";
import { ConfigError, expected } from "../../errors.ts";
import { rng } from "../../random.ts";
import type { Message } from "../../types.ts";
import { OnlineAdapter, type AdapterSettings, type Learned } from "./adapter.ts";
import { critiquePrompt } from "./critique.ts";
import { contextOf, exactly, messageOf, promptOf, readFeedback, type Answer, type Taught } from "./feedback.ts";
import { openFolder, type OnlineFolder } from "./folder.ts";
import type { FeedbackEntry, LessonRow, Told } from "./journal.ts";
import { plainRow } from "./lesson-batch.ts";
import { lessonsOf, referenceRows } from "./lesson-rows.ts";
import { readSettings, type GenerateOptions, type LearnOptions, type OnlineOptions } from "./options.ts";

/** What `learn` gives; `made` is the corrected answer that a comment was turned into. */
export type LearnResult = Learned & { readonly made?: string };

/** How many answers drift is measured on. */
const watchedAnswers = 4;
const adapterName = /^[^\p{C}]{1,100}$/u;

interface Parts {
  readonly policy: OpenedPolicy;
  readonly home: OnlineFolder;
  readonly settings: AdapterSettings;
  /** The opened model's name in the engine: what adapters start from and are held to. */
  readonly from: "policy" | "base";
  readonly maxAdapters: number;
}

export class OnlineLLM implements AsyncDisposable {
  readonly #parts: Parts;
  readonly #adapters = new Map<string, Promise<OnlineAdapter>>();
  /** The last answers, on which drift is measured, with the opened model's log-probs once they were asked for. */
  readonly #recent = new Map<string, { readonly answer: Answer; row?: LessonRow }>();
  #guard: readonly LessonRow[] = [];
  /** Work on weights is done one piece after another. */
  #turn: Promise<unknown> = Promise.resolve();
  #asked = 0;
  #opened = 0;
  #closing: Promise<void> | undefined;

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Opens a model folder, a hub id, a file, or a run folder (then what was trained is what learning starts from). ConfigError for a
   * setting that is none, RunError for a folder in use or of another model.
   */
  static async open(model: string, options: OnlineOptions = {}): Promise<OnlineLLM> {
    const { folder = join("runs", "online"), guard = [], maxAdapters = 16, cacheDir, ...given } = options;
    const settings = readSettings(given);
    const { policy, home, ...start } = await openFolder(model, { folder: resolve(folder), settings, cacheDir });
    const online = new OnlineLLM({ policy, home, maxAdapters, ...start });
    try {
      online.#guard = await online.#guardRows(guard);
    } catch (error) {
      await online.close();
      throw error;
    }
    return online;
  }

  /** The engine and the renderer; its "policy" and "base" are the opened model's and are never trained here. */
  get policy(): OpenedPolicy {
    return this.#parts.policy;
  }

  get folder(): string {
    return this.#parts.home.folder;
  }

  /** Samples answers; each later piece of feedback about one trains exactly the ids that were sampled. */
  async generate(prompt: string | readonly Message[], options: GenerateOptions = {}): Promise<Answer[]> {
    const { count = 1, maxTokens = 256, temperature = 1, adapter: name = "default", tools = [], signal } = options;
    const { engine, renderer } = this.#parts.policy;
    const adapter = await this.#adapter(name);
    const messages = promptOf(prompt);
    const { ids: promptIds } = renderer.start(messages, tools);
    const room = engine.info.contextLength - promptIds.length;
    if (room < 1) {
      const want = `fewer than ${engine.info.contextLength} tokens, the model's context`;
      throw new ConfigError(expected("generate prompt", want, String(promptIds.length)));
    }
    const asked = this.#asked++;
    const version = adapter.version;
    const spans = await engine.sample({
      prompt: promptIds,
      count,
      maxTokens: Math.min(maxTokens, room),
      temperature,
      stopIds: renderer.stopIds,
      keys: Array.from({ length: count }, (_, i) => rng(this.#parts.settings.seed, "online", this.#parts.home.session, asked, i)),
      adapter: adapter.served,
      ...(signal === undefined ? {} : { signal }),
    });
    signal?.throwIfAborted();
    const answers = spans.map(({ ids, logprobs, finish }): Answer => {
      const { message } = renderer.parseTurn(ids, finish, tools);
      return { id: randomUUID(), adapter: name, version, prompt: messages, tools, message, promptIds, ids, logprobs, finish };
    });
    await this.#parts.home.remember(answers);
    this.#watch(answers[0]);
    return answers;
  }

  /** An answer that was given before, by its id. */
  answer(id: string): Answer {
    const answer = this.#parts.home.answer(id);
    if (answer === undefined) throw new ConfigError(expected("answer", "the id of an answer that was given", JSON.stringify(id)));
    return answer;
  }

  /**
   * Learns from one piece of feedback. It is durable before it is trained on: after a crash it is trained when the folder is opened
   * again, and never twice. Sampling goes on meanwhile; the first answer after this uses the new weights.
   */
  async learn(taught: Taught, options: LearnOptions = {}): Promise<LearnResult> {
    const { id = randomUUID(), annotator, weight = 1 } = options;
    if (!/^[\w-]{1,100}$/.test(id)) throw new ConfigError(expected("learn id", "up to 100 letters, digits, - and _", JSON.stringify(id)));
    if (!(weight > 0 && weight <= 1)) throw new ConfigError(expected("learn weight", "above 0 and at most 1", String(weight)));
    const adapter = await this.#adapter(options.adapter ?? "default");
    const made = "comment" in taught && adapter.journal.find(id) === undefined ? await this.#corrected(taught, adapter.name) : undefined;
    return this.#inTurn(async () => {
      const known = adapter.journal.find(id);
      if (known?.undone === true) throw new ConfigError(expected(`learn ${id}`, "an id that was not used", "one whose update was undone"));
      if (known?.outcome !== undefined) return known.result as unknown as LearnResult;
      const entry = known?.entry ?? (await this.#acknowledged(made ?? taught, { adapter, id, annotator, weight }));
      const learned = await adapter.learn(entry, await this.#watched());
      return made === undefined ? learned : { ...learned, made: made.correction };
    });
  }

  /** Reads and encodes the feedback, and makes it durable. */
  async #acknowledged(
    taught: Taught,
    { adapter, id, annotator, weight }: { adapter: OnlineAdapter; id: string; annotator: string | undefined; weight: number },
  ): Promise<FeedbackEntry> {
    if ("comment" in taught) throw new ConfigError("learn: a comment is turned into a correction before it is learned");
    const { policy, from, settings } = this.#parts;
    const { drafts, given } = readFeedback(taught, policy.renderer);
    const lessons = await lessonsOf(policy.engine, drafts, { reference: from, weight, likelihood: settings.likelihood });
    const by = annotator === undefined ? {} : { annotator };
    const entry: FeedbackEntry = { type: "feedback", id, at: new Date().toISOString(), ...by, given, lessons };
    await adapter.journal.add(entry);
    return entry;
  }

  async #corrected(taught: Extract<Taught, { readonly comment: string }>, adapter: string) {
    const { prompt, tools } = contextOf(taught);
    const { answer, comment } = taught;
    const [rewritten] = await this.generate(critiquePrompt(prompt, messageOf(answer), comment), { adapter, temperature: 0.7 });
    const correction = rewritten!.message.content.trim();
    if (correction === "" || rewritten!.finish.type !== "eos")
      throw new ConfigError(expected("learn comment", "a corrected answer from the model", "none that ended", "give a correction instead"));
    return { prompt, tools, answer, correction };
  }

  /** Takes the adapter's last update back, bitwise, and returns the feedback that is no longer learned. */
  async undo({ adapter: name = "default" }: { readonly adapter?: string } = {}): Promise<Told> {
    const adapter = await this.#adapter(name);
    return this.#inTurn(() => adapter.undo());
  }

  /** All feedback that an adapter was given, with its outcome. */
  async history({ adapter: name = "default" }: { readonly adapter?: string } = {}): Promise<readonly Told[]> {
    return (await this.#adapter(name)).journal.told;
  }

  /** Names of adapters with a history, open or not. */
  adapters(): Promise<string[]> {
    return this.#parts.home.adapters();
  }

  /** Log-probs of whole answers to one prompt under the adapter, best first: how they would be ranked now. */
  async rank(answers: readonly Answer[], options: { readonly adapter?: string } = {}): Promise<{ answer: Answer; logprob: number }[]> {
    const adapter = await this.#adapter(options.adapter ?? answers[0]?.adapter ?? "default");
    const rows = answers.map((answer) => plainRow(exactly(answer, "answer")));
    const logprobs = await this.#inTurn(() => this.#parts.policy.engine.logprobs(rows, { adapter: adapter.served }));
    const scored = answers.map((answer, i) => ({ answer, logprob: logprobs[i]!.reduce((a, b) => a + b, 0) }));
    return scored.sort((a, b) => b.logprob - a.logprob);
  }

  #watch(answer: Answer | undefined): void {
    if (answer === undefined || answer.ids.length === 0) return;
    this.#recent.set(answer.id, { answer });
    for (const id of this.#recent.keys()) if (this.#recent.size > watchedAnswers) this.#recent.delete(id);
  }

  /** What an update is held to, beside its own lessons. */
  async #watched(): Promise<{ answers: readonly LessonRow[]; guard: readonly LessonRow[] }> {
    const { policy, from } = this.#parts;
    const recent = [...this.#recent.values()];
    const unread = recent.filter(({ row }) => row === undefined);
    const rows = await referenceRows(policy.engine, unread.map(({ answer }) => exactly(answer, "answer")), from);
    unread.forEach((one, i) => (one.row = rows[i]!));
    return { answers: recent.map(({ row }) => row!), guard: this.#guard };
  }

  async #guardRows(guard: NonNullable<OnlineOptions["guard"]>): Promise<LessonRow[]> {
    const { policy, from } = this.#parts;
    const rows = guard.flatMap(({ prompt, answer }, i) => {
      const messages = [{ role: "assistant", content: answer } as const];
      return encodeAnswer(policy.renderer, { prompt: promptOf(prompt), answer: messages }, `guard ${i + 1}`);
    });
    return referenceRows(policy.engine, rows, from);
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw new ConfigError("OnlineLLM: it is closed");
    const result = this.#turn.then(body);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  #adapter(name: string): Promise<OnlineAdapter> {
    const known = this.#adapters.get(name);
    if (known !== undefined) return known;
    const { maxAdapters } = this.#parts;
    if (!adapterName.test(name))
      throw new ConfigError(expected("adapter", "a name of 1 to 100 printable characters", JSON.stringify(name)));
    if (this.#adapters.size >= maxAdapters)
      throw new ConfigError(expected(`adapter ${name}`, `at most ${maxAdapters} open adapters`, "one more", "raise maxAdapters"));
    const engineName = `online${this.#opened++}`;
    const opening = this.#inTurn(() => this.#open(name, engineName));
    this.#adapters.set(name, opening);
    opening.catch(() => this.#adapters.delete(name));
    return opening;
  }

  /** Opens an adapter, and learns what was acknowledged before the process ended. */
  async #open(name: string, engineName: string): Promise<OnlineAdapter> {
    const { policy, home, settings, from } = this.#parts;
    const adapter = await OnlineAdapter.open({ engine: policy.engine, folder: home.adapterFolder(name), name, engineName, from, settings });
    for (const entry of adapter.pending) await adapter.learn(entry, await this.#watched());
    return adapter;
  }

  /** Ends when the update that is under way has ended; what is still being sampled ends with an error. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#turn;
    await this.#parts.policy[Symbol.asyncDispose]();
    await this.#parts.home.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
