/**
 * One session: every call of one agent, kept as the rows that the sampler saw. A history that a client sends back is found by what it
 * says; the ids of its sampled turns are used again and never encoded anew. A turn that is continued twice (parallel branches, several
 * answers, a retry) is continued once in its own row; each other branch is a row of its own, in which what came before is context, so
 * that no token is trained twice.
 */
import { setMaxListeners } from "node:events";
import { expected, finite } from "../../../errors.ts";
import type { ChatRenderer, RenderState } from "../../../compute/text/renderer.ts";
import { rng } from "../../../random.ts";
import type {
  Feedback,
  Finite,
  Message,
  RandomKey,
  SampledSpan,
  Scored,
  Span,
  ToolSpec,
  Turn,
  TurnParse,
  Verdict,
} from "../../../types.ts";
import { ApiError } from "../errors.ts";
import type { Sampling } from "../requests.ts";
import { historyKeys } from "./history.ts";

/** A sampled turn and how it was read. */
interface SampledTurn {
  readonly span: SampledSpan;
  readonly message: Message;
  readonly parse: TurnParse;
}

/** A prompt that is about to be sampled from. */
export interface Opened {
  readonly ids: readonly number[];
  /** Records what was sampled, all answers at once. */
  commit(turns: readonly SampledTurn[]): void;
  /** Gives the place back; to be called once sampling is over, whatever came of it. */
  release(): void;
}

/** The place after a sampled turn. */
interface Place {
  readonly turn: number;
  readonly span: SampledSpan;
  readonly state: RenderState;
  /** Its row goes on from here, or somebody is about to let it. */
  taken: boolean;
}

/** Where a prompt stands: at the end of a row that goes on, or in a row of its own. */
interface Start {
  readonly ids: readonly number[];
  readonly state: RenderState;
  readonly continues?: { readonly place: Place; readonly context: readonly number[] };
  readonly answered?: { readonly place: Place; readonly replies: readonly Message[] };
}

interface RecordedTurn {
  readonly row: number;
  readonly span: number;
  readonly message: Message;
  readonly parse: TurnParse;
  replies: readonly Message[];
  reward?: Finite;
}

/** What holds for every call of a session, whatever the client asks. */
export interface SessionRules {
  readonly temperature: number;
  /** Of one answer. */
  readonly maxTokens: number;
  readonly maxCalls: number;
  /** Address of its randomness; the number of the call is added. */
  readonly key: RandomKey;
}

interface Conversation {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
}

interface SessionOptions {
  readonly owner: string;
  readonly renderer: ChatRenderer;
  readonly task?: Partial<Session["task"]>;
  readonly rules?: SessionRules;
}

export class Session {
  readonly id: string;
  readonly owner: string;
  readonly created = Date.now();
  readonly task: { readonly id: string; readonly data: Scored["trajectory"]["task"]["data"] };
  /** Requests that are being sampled. */
  running = 0;
  lastUsed = performance.now();
  /** Tokens in its rows. */
  tokens = 0;
  readonly counts = { calls: 0, changedHistories: 0, branches: 0, newRows: 0 };
  readonly feedback: Feedback[] = [];
  readonly #rules: SessionRules | undefined;
  readonly #end = new AbortController();
  /** A call was refused because there had been as many as the rules allow. */
  overCalled = false;
  readonly #renderer: ChatRenderer;
  readonly #rows: Span[][] = [];
  readonly #turns: RecordedTurn[] = [];
  readonly #places = new Map<string, Place[]>();
  #prompt: readonly Message[] = [];
  #messages: readonly Message[] = [];
  #score: { readonly value: Finite; readonly explanation: string } | undefined;

  constructor(id: string, { owner, renderer, task, rules }: SessionOptions) {
    this.id = id;
    this.#rules = rules;
    setMaxListeners(0, this.#end.signal); // one for each running call
    this.owner = owner;
    this.#renderer = renderer;
    this.task = { id: task?.id ?? id, data: task?.data ?? {} };
  }

  /** Aborted when the session takes no more calls. */
  get ended(): AbortSignal {
    return this.#end.signal;
  }

  /** Takes no more calls, ends those that run, and resolves when none does. */
  async end(): Promise<void> {
    this.#end.abort(new Error(`session ${this.id} has ended`));
    while (this.running > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  /** What a call samples with under the session's rules; refuses one call too many. */
  ruled(asked: Sampling): Sampling {
    if (this.ended.aborted) throw new ApiError(409, `session ${this.id}: it has ended`, { code: "session_ended" });
    const rules = this.#rules;
    if (rules === undefined) return asked;
    const { calls } = this.counts;
    if (calls >= rules.maxCalls) {
      this.overCalled = true;
      throw new ApiError(400, expected(`session ${this.id}`, `at most ${rules.maxCalls} calls`, "one more"), { code: "turn_limit" });
    }
    const maxTokens = Math.min(asked.maxTokens ?? rules.maxTokens, rules.maxTokens);
    return { ...asked, temperature: rules.temperature, maxTokens, seed: asked.seed ?? rng(rules.key.lo, rules.key.hi, calls).lo };
  }

  /** Finds where a conversation stands. `onChanged` is called if it is not a continuation of what was sampled, though it says so. */
  open({ messages, tools }: Conversation, onChanged: () => void): Opened {
    const keys = historyKeys(tools, messages);
    const start = this.#locate({ messages, tools }, keys, () => {
      this.counts.changedHistories++;
      onChanged();
    });
    this.#begin();
    const { continues } = start;
    if (continues !== undefined) continues.place.taken = true;
    let committed = false;
    return {
      ids: start.ids,
      commit: (turns) => {
        committed = true;
        if (this.#turns.length === 0) this.#prompt = messages;
        this.#messages = [...messages, turns[0]!.message];
        turns.forEach((turn, i) => {
          const row = this.#append(i === 0 ? start : { ids: start.ids, state: start.state }, turn.span);
          if (i > 0) this.counts.branches++;
          this.#remember(turn, row, { state: start.state, key: keyAfter({ messages, tools }, turn.message) });
        });
        if (start.answered !== undefined) this.#turns[start.answered.place.turn]!.replies = start.answered.replies;
      },
      release: () => {
        this.running--;
        this.lastUsed = performance.now();
        if (!committed && continues !== undefined) continues.place.taken = false;
      },
    };
  }

  /** A prompt in ids that belongs to no conversation: each answer is a row. */
  openRaw(ids: readonly number[]): Opened {
    this.#begin();
    return {
      ids,
      commit: (turns) => {
        for (const turn of turns) this.#turns.push(recorded(turn, this.#append({ ids }, turn.span)));
      },
      release: () => {
        this.running--;
        this.lastUsed = performance.now();
      },
    };
  }

  #begin(): void {
    this.running++;
    this.counts.calls++;
    this.lastUsed = performance.now();
  }

  #locate({ messages, tools }: Conversation, keys: readonly string[], onChanged: () => void): Start {
    for (let end = messages.length - 1; end >= 0; end--) {
      if (messages[end]!.role !== "assistant") continue;
      const found = this.#places.get(keys[end]!);
      if (found === undefined) continue;
      const place = found.find(({ taken }) => !taken) ?? found.at(-1)!;
      const replies = messages.slice(end + 1);
      if (replies.some(({ role }) => role === "assistant")) onChanged();
      return this.#continued(place, replies);
    }
    if (this.#turns.length > 0 && messages.some(({ role }) => role === "assistant")) onChanged();
    return this.#renderer.start(messages, tools);
  }

  #continued(place: Place, replies: readonly Message[]): Start {
    const { message } = this.#turns[place.turn]!;
    const next = this.#renderer.extend(place.state, { ids: place.span.ids, message, finish: place.span.finish }, replies);
    const answered = { place, replies };
    if (next.kind === "new-row") {
      this.counts.newRows++;
      return { ids: next.ids, state: next.state, answered };
    }
    const ids = [...this.#idsUpTo(place), ...next.ids];
    if (!place.taken) return { ids, state: next.state, continues: { place, context: next.ids }, answered };
    this.counts.branches++;
    return { ids, state: next.state };
  }

  #idsUpTo({ turn }: Place): number[] {
    const { row, span } = this.#turns[turn]!;
    return this.#rows[row]!.slice(0, span + 1).flatMap(({ ids }) => [...ids]);
  }

  #append({ ids, continues }: Pick<Start, "ids" | "continues">, span: SampledSpan): { readonly row: number; readonly span: number } {
    const row = continues === undefined ? this.#rows.push([]) - 1 : this.#turns[continues.place.turn]!.row;
    const context = continues?.context ?? ids;
    this.#rows[row]!.push({ kind: "context", ids: context }, span);
    this.tokens += context.length + span.ids.length;
    return { row, span: this.#rows[row]!.length - 1 };
  }

  #remember(turn: SampledTurn, at: { row: number; span: number }, { state, key }: { state: RenderState; key: string }): void {
    const index = this.#turns.push(recorded(turn, at)) - 1;
    const place: Place = { turn: index, span: turn.span, state, taken: false };
    this.#places.set(key, [...(this.#places.get(key) ?? []), place]);
  }

  /** The whole session's reward; the last one counts. */
  reward(value: number, explanation: string): void {
    this.#score = { value: finite(value, "reward"), explanation };
  }

  rewardTurn(turn: number, value: number): void {
    const found = this.#turns[turn];
    if (found === undefined) {
      throw new ApiError(400, expected("turn", `an index below ${this.#turns.length}`, String(turn)), {
        param: "turn",
        code: "invalid_value",
      });
    }
    found.reward = finite(value, `reward of turn ${turn}`);
  }

  get verdict(): Verdict {
    if (this.#score === undefined) return { type: "unscorable", reason: "no reward was given" };
    return { type: "scored", score: this.#score.value, components: {}, explanation: this.#score.explanation };
  }

  /** What was sampled, with the reward that was given. */
  scored(): Scored {
    const last = this.#turns.at(-1);
    const { calls: _, ...counts } = this.counts;
    const sampled = this.#turns.map(({ row, span }) => this.#rows[row]![span]!.ids.length);
    const trajectory = {
      id: `session/${this.id}`,
      task: { ...this.task, prompt: this.#prompt },
      sample: 0,
      rows: this.#rows.map((spans) => ({ spans: [...spans] })),
      turns: this.#turns.map((turn): Turn => ({ ...turn })),
      messages: this.#messages,
      end: last?.parse === "truncated" ? ({ type: "length" } as const) : ({ type: "done" } as const),
      measures: { ...counts, sampledTokens: sampled.reduce((a, b) => a + b, 0) },
      seconds: (Date.now() - this.created) / 1000,
    };
    return { trajectory, verdict: this.verdict };
  }
}

const recorded = ({ message, parse }: SampledTurn, { row, span }: { row: number; span: number }): RecordedTurn => ({
  row,
  span,
  message,
  parse,
  replies: [],
});

const keyAfter = ({ messages, tools }: Conversation, message: Message): string => historyKeys(tools, [...messages, message]).at(-1)!;
