/** A judge model behind an OpenAI-compatible HTTP service. */
import { z } from "zod";
import { RewardError, expected } from "../../../errors.ts";
import type { Complete } from "./judge.ts";

export interface ChatCompletionsOptions {
  /** Up to and with /v1. */
  readonly baseUrl: string;
  readonly model: string;
  /** Sent as a bearer token; kept out of every message. */
  readonly key?: string;
}

const reply = z.object({ choices: z.array(z.object({ message: z.object({ content: z.string().nullable() }) })).min(1) });

/** Temperature 0; throws for any answer that is no completion. */
export function chatCompletions({ baseUrl, model, key }: ChatCompletionsOptions): Complete {
  if (!URL.canParse(baseUrl)) throw new RewardError(expected("judge: baseUrl", "an address such as http://127.0.0.1:8000/v1", baseUrl));
  return async (messages, { signal }) => {
    const response = await fetch(`${baseUrl.replace(/\/$/, "")}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ model, temperature: 0, messages: messages.map(({ role, content }) => ({ role, content })) }),
      ...(signal === undefined ? {} : { signal }),
    });
    if (!response.ok) throw new RewardError(`judge: the service answered with status ${response.status}`);
    return reply.parse(await response.json()).choices[0]!.message.content ?? "";
  };
}
