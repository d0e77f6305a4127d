/** Log-probs of sampled tokens in OpenAI's two forms. They are of the whole distribution at the sampling temperature. */
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import type { TokenLogprob } from "../../types.ts";
import type { Sampling } from "./requests.ts";

export interface TokenReport extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

type Texts = Pick<ChatRenderer, "tokenizer" | "stopIds">;

/** Null unless asked for. The end token is left out: it is no part of the content. */
export function chatLogprobs(
  tokens: readonly TokenReport[],
  texts: Texts,
  { logprobs }: Sampling,
): { content: unknown[]; refusal: null } | null {
  if (logprobs === undefined) return null;
  const entry = ({ id, logprob }: TokenLogprob): object => {
    const bytes = texts.tokenizer.bytesOf(id);
    return { token: texts.tokenizer.decode([id]), logprob, bytes: [...bytes] };
  };
  const content = tokens
    .filter(({ id }) => !texts.stopIds.includes(id))
    .map((token) => ({ ...entry(token), top_logprobs: token.top.map(entry) }));
  return { content, refusal: null };
}

export function completionLogprobs(tokens: readonly TokenReport[], texts: Texts, { logprobs }: Sampling): object | null {
  if (logprobs === undefined) return null;
  const shown = tokens.filter(({ id }) => !texts.stopIds.includes(id));
  const name = (id: number): string => texts.tokenizer.decode([id]);
  let offset = 0;
  return {
    tokens: shown.map(({ id }) => name(id)),
    token_logprobs: shown.map(({ logprob }) => logprob),
    top_logprobs: logprobs === 0 ? null : shown.map(({ top }) => Object.fromEntries(top.map(({ id, logprob }) => [name(id), logprob]))),
    text_offset: shown.map(({ id }) => {
      const at = offset;
      offset += name(id).length;
      return at;
    }),
  };
}
