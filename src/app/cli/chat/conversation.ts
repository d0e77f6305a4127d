/** A conversation with a policy: turns are appended to the same row of ids, so that what was computed for it is used again. */
import { randomInt } from "node:crypto";
import type { OpenedPolicy } from "../../../compute/policy/open.ts";
import type { RenderState } from "../../../compute/text/renderer.ts";
import { PolicyError, expected } from "../../../errors.ts";
import { rng } from "../../../random.ts";
import type { FinishReason, Message } from "../../../types.ts";

/** Tokens sampled between two looks at the text: short enough to read along. */
const CHUNK = 8;

export interface ConversationOptions {
  readonly system?: string;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed?: number;
}

export interface Answer {
  readonly text: string;
  readonly tokens: number;
  readonly seconds: number;
  readonly finish: FinishReason;
}

/** The row so far: ids up to the last sampled turn, and that turn itself. */
interface Place {
  readonly state: RenderState;
  readonly ids: readonly number[];
  readonly turn: { readonly ids: readonly number[]; readonly message: Message; readonly finish: FinishReason };
}

interface SayOptions {
  readonly onText: (piece: string) => void;
  readonly signal: AbortSignal;
}

export class Conversation {
  readonly #policy: OpenedPolicy;
  readonly #options: ConversationOptions;
  readonly #seed: number;
  #place: Place | undefined;
  #turns = 0;

  constructor(policy: OpenedPolicy, options: ConversationOptions) {
    this.#policy = policy;
    this.#options = options;
    this.#seed = options.seed ?? randomInt(2 ** 32);
  }

  reset(): void {
    this.#place = undefined;
  }

  /** Answers a message; `onText` gets the answer piece by piece. An aborted or failed turn leaves the conversation as it was. */
  async say(content: string, { onText, signal }: SayOptions): Promise<Answer> {
    const { renderer, engine } = this.#policy;
    const { ids, state } = this.#next({ role: "user", content });
    const room = engine.info.contextLength - ids.length;
    if (room < 1) {
      const want = `at most ${engine.info.contextLength - 1} tokens, the model's context`;
      throw new PolicyError(expected("conversation", want, `${ids.length}`, "begin a new one"));
    }
    const started = performance.now();
    const sampled: number[] = [];
    let finish: FinishReason = { type: "length" };
    let text = "";
    const turn = this.#turns++;
    const limit = Math.min(this.#options.maxTokens, room);
    while (finish.type === "length" && sampled.length < limit) {
      signal.throwIfAborted();
      const [span] = await engine.sample({
        prompt: [...ids, ...sampled],
        count: 1,
        maxTokens: Math.min(CHUNK, limit - sampled.length),
        temperature: this.#options.temperature,
        stopIds: renderer.stopIds,
        keys: [rng(this.#seed, "chat", turn, sampled.length)],
        signal,
      });
      signal.throwIfAborted();
      sampled.push(...span!.ids);
      finish = span!.finish;
      const readable = renderer.tokenizer.decode(finish.type === "eos" ? sampled.slice(0, -1) : sampled);
      // A character whose bytes are not all there yet waits for the next piece.
      const whole = finish.type === "length" && sampled.length < limit ? readable.replace(/\ufffd+$/, "") : readable;
      onText(whole.slice(text.length));
      text = whole;
    }
    const { message } = renderer.parseTurn(sampled, finish, []);
    this.#place = { state, ids, turn: { ids: sampled, message, finish } };
    return { text, tokens: sampled.length, seconds: (performance.now() - started) / 1000, finish };
  }

  #next(message: Message): { readonly ids: readonly number[]; readonly state: RenderState } {
    const { renderer } = this.#policy;
    const { system } = this.#options;
    const first: Message[] = system === undefined ? [] : [{ role: "system", content: system }];
    if (this.#place === undefined) return renderer.start([...first, message]);
    const { state, ids, turn } = this.#place;
    const next = renderer.extend(state, turn, [message]);
    return { state: next.state, ids: next.kind === "extend" ? [...ids, ...turn.ids, ...next.ids] : next.ids };
  }
}
