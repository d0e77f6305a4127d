/** Wolfram Alpha as a second engine, with the user's own key: its Full Results API is asked for the difference of the two answers. */
import { z } from "zod";
import { RewardError, expected, messageOf } from "../../../../errors.ts";
import type { SecondEngine } from "./second.ts";

interface WolframAlphaOptions {
  /** The AppID of the user's account. */
  readonly key: string;
  readonly baseUrl?: string;
  readonly seconds?: number;
}

const reply = z.object({
  queryresult: z.object({
    success: z.boolean(),
    error: z.union([z.boolean(), z.object({ code: z.string(), msg: z.string() })]).nullish(),
    pods: z.array(z.object({ id: z.string(), subpods: z.array(z.object({ plaintext: z.string().nullish() })) })).nullish(),
  }),
});

/** Equal if the difference is 0, different if it is another number, else no opinion. An error of the service fails the grading. */
export function wolframAlpha({ key, baseUrl = "https://api.wolframalpha.com", seconds = 20 }: WolframAlphaOptions): SecondEngine {
  if (key.trim() === "") throw new RewardError(expected("Wolfram Alpha: key", "the AppID of your account", "an empty text"));
  return {
    name: "Wolfram Alpha",
    async equal(gold, answer, signal) {
      if (gold.text === null || answer.text === null) return null;
      const query = { appid: key, input: `simplify (${gold.text}) - (${answer.text})`, output: "json", format: "plaintext" };
      const limit = AbortSignal.timeout(seconds * 1000);
      const said = await ask(
        `${baseUrl}/v2/query?${new URLSearchParams(query).toString()}`,
        signal === undefined ? limit : AbortSignal.any([signal, limit]),
        key,
      );
      if (said === null) return null;
      if (/^[-+]?0(?:\.0*)?$/.test(said) || said === "True") return true;
      return /^[-+−]?\d+(?:\.\d+)?(?:\/\d+)?(?:…|\.\.\.)?$/.test(said) || said === "False" ? false : null;
    },
  };
}

async function ask(url: string, signal: AbortSignal, key: string): Promise<string | null> {
  let body: string;
  try {
    const response = await fetch(url, { signal });
    body = await response.text();
    if (!response.ok) throw new Error(`status ${response.status}: ${body.slice(0, 100)}`);
  } catch (cause) {
    throw new RewardError(`Wolfram Alpha: ${messageOf(cause).replaceAll(key, "…")}`);
  }
  const { queryresult } = reply.parse(JSON.parse(body));
  if (typeof queryresult.error === "object" && queryresult.error !== null) {
    throw new RewardError(`Wolfram Alpha: error ${queryresult.error.code}: ${queryresult.error.msg}`);
  }
  if (!queryresult.success) return null;
  const pod = queryresult.pods?.find(({ id }) => id === "Result" || id === "ExactResult" || id === "Simplification");
  return pod?.subpods[0]?.plaintext?.trim() ?? null;
}
