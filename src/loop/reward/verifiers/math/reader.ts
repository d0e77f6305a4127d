/** A place in a list of tokens, with a bound on nesting. */
import type { Expr } from "./expression.ts";
import { MathSyntaxError, type Token } from "./tokens.ts";

/** Most brackets inside brackets. */
const MAX_DEPTH = 60;

/** The two rules that brackets and fractions begin again with. */
interface Rules {
  readonly list: (reader: Reader) => Expr;
  readonly sum: (reader: Reader) => Expr;
}

export class Reader {
  private readonly tokens: readonly Token[];
  private readonly rules: Rules;
  private depth = 0;
  at = 0;
  /** Inside |...|, where a further | closes. */
  bars = 0;

  constructor(tokens: readonly Token[], rules: Rules) {
    this.tokens = tokens;
    this.rules = rules;
  }

  get done(): boolean {
    return this.at >= this.tokens.length;
  }

  peek(ahead = 0): Token | undefined {
    return this.tokens[this.at + ahead];
  }

  next(): Token {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new MathSyntaxError("the end");
    return token;
  }

  /** Replaces the current token by two: \frac12 takes one digit at a time. */
  splitNumber(): Token {
    const token = this.next();
    if (token.type !== "number" || !/^\d\d+$/.test(token.text)) return token;
    this.at--;
    (this.tokens as Token[])[this.at] = { type: "number", text: token.text.slice(1), spaced: false };
    return { ...token, text: token.text[0]! };
  }

  takeMark(text: string): boolean {
    return this.take("mark", text);
  }

  takeCommand(text: string): boolean {
    return this.take("command", text);
  }

  private take(type: Token["type"], text: string): boolean {
    const token = this.tokens[this.at];
    if (token?.type !== type || token.text !== text) return false;
    this.at++;
    return true;
  }

  expectMark(text: string): void {
    if (!this.takeMark(text)) throw new MathSyntaxError(`${this.found()} in place of "${text}"`);
  }

  found(): string {
    const token = this.tokens[this.at];
    return token === undefined ? "the end" : `"${token.text.slice(0, 20)}"`;
  }

  list(): Expr {
    return this.rules.list(this);
  }

  sum(): Expr {
    return this.rules.sum(this);
  }

  deeper<T>(body: () => T): T {
    if (++this.depth > MAX_DEPTH) throw new MathSyntaxError(`brackets nested deeper than ${MAX_DEPTH}`);
    const result = body();
    this.depth--;
    return result;
  }
}
