/** One answer as text while it is sampled: complete characters only, without its end token, and cut before a stop string. */
import { overlap } from "../../compute/text/dialects/dialect.ts";
import { streamDecoder, type Tokenizer } from "../../compute/text/tokenizer.ts";

interface TurnTextOptions {
  readonly tokenizer: Tokenizer;
  /** Ids that end the turn; they are no text. */
  readonly stopIds: readonly number[];
  readonly stop: readonly string[];
  /** What of an unfinished text is certain to be answered; it must only grow. */
  readonly settled: (text: string) => string;
}

export class TurnText {
  readonly #options: TurnTextOptions;
  readonly #decoder: ReturnType<typeof streamDecoder>;
  #text = "";
  #sent = "";

  constructor(options: TurnTextOptions) {
    this.#options = options;
    this.#decoder = streamDecoder(options.tokenizer);
  }

  /** The text that this token makes certain. */
  push(id: number): string {
    const { stopIds, stop, settled } = this.#options;
    if (!stopIds.includes(id)) this.#text += this.#decoder.push(id);
    const cut = cutAtStop(this.#text, stop);
    const waiting = Math.max(0, ...stop.map((one) => overlap(cut, one)));
    const certain = settled(cut.slice(0, cut.length - waiting));
    return this.#advance(certain);
  }

  /** The rest of a turn's content, now that the whole turn was read. */
  finish(content: string): string {
    return this.#advance(content);
  }

  /** The rest of a text that nobody reads as a turn. */
  end(): string {
    this.#text += this.#decoder.end();
    return this.#advance(cutAtStop(this.#text, this.#options.stop));
  }

  #advance(text: string): string {
    const fresh = text.slice(this.#sent.length);
    this.#sent += fresh;
    return fresh;
  }
}

/** The text before the first of the stop strings. */
export function cutAtStop(text: string, stop: readonly string[]): string {
  const found = stop.map((one) => text.indexOf(one)).filter((at) => at >= 0);
  return found.length === 0 ? text : text.slice(0, Math.min(...found));
}
