/**
 * Bodies of requests. What would change the answer and is not supported is refused by name; a value that asks for nothing (a penalty
 * of 0) and what is for the service's books (`user`, `metadata`) is taken.
 */
import { z } from "zod";
import { expected } from "../../errors.ts";
import type { JsonObject, Message, ToolSpec } from "../../types.ts";
import { ApiError, wrongField } from "./errors.ts";
import { messageSchema, messagesOf, toolOf, toolSchema } from "./messages.ts";

const jsonObject = z.record(z.string(), z.json()) as z.ZodType<JsonObject>;
const books = {
  user: z.unknown().optional(),
  store: z.unknown().optional(),
  service_tier: z.unknown().optional(),
  safety_identifier: z.unknown().optional(),
  prompt_cache_key: z.unknown().optional(),
  prompt_cache_retention: z.unknown().optional(),
  verbosity: z.literal("medium").nullish(),
  metadata: z.looseObject({ session: z.string().optional() }).nullish(),
};
const sampling = {
  model: z.string(),
  n: z.int().min(1).max(128).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string().min(1), z.array(z.string().min(1)).max(16)]).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() }).nullish(),
  // Values that ask for nothing.
  top_p: z.literal(1, { error: "expected 1: the sampler draws from the whole distribution; use temperature" }).nullish(),
  frequency_penalty: z.literal(0, { error: "expected 0: penalties are not supported" }).nullish(),
  presence_penalty: z.literal(0, { error: "expected 0: penalties are not supported" }).nullish(),
  logit_bias: z.strictObject({}, { error: "expected none: biases are not supported" }).nullish(),
};

const named = z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: z.string() }) });
const chatSchema = z.strictObject({
  ...books,
  ...sampling,
  messages: z.array(messageSchema).min(1),
  tools: z.array(toolSchema).nullish(),
  tool_choice: z.union([z.literal(["auto", "none", "required"]), named]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  response_format: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal(["text", "json_object"]) }),
      z.strictObject({
        type: z.literal("json_schema"),
        json_schema: z.strictObject({
          name: z.string(),
          description: z.string().nullish(),
          schema: jsonObject,
          strict: z.boolean().nullish(),
        }),
      }),
    ])
    .nullish(),
  modalities: z.tuple([z.literal("text")]).nullish(),
  reasoning_effort: z.literal("none", { error: "expected none: this model has no reasoning efforts" }).nullish(),
});

const completionSchema = z.strictObject({
  ...books,
  ...sampling,
  prompt: z.union([z.string(), z.array(z.string()).min(1), z.array(z.int()).min(1), z.array(z.array(z.int()).min(1)).min(1)]),
  max_tokens: z.int().min(1).nullish(),
  logprobs: z.int().min(0).max(20).nullish(),
  echo: z.literal(false, { error: "expected false: the prompt is not repeated" }).nullish(),
  best_of: z.literal(1, { error: "expected 1: answers are not ranked" }).nullish(),
});

export interface Sampling {
  readonly model: string;
  readonly count: number;
  /** Undefined: the server's default. */
  readonly maxTokens: number | undefined;
  readonly temperature: number;
  readonly stop: readonly string[];
  readonly seed: number | undefined;
  /** Log-probs of the sampled tokens are answered, with this many alternatives. */
  readonly logprobs: number | undefined;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly session: string | undefined;
}

type ToolChoice = { readonly type: "auto" | "none" | "required" } | { readonly type: "named"; readonly name: string };
type ResponseFormat = { readonly type: "text" | "json" } | { readonly type: "schema"; readonly schema: JsonObject };

export interface ChatRequest {
  readonly sampling: Sampling;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** Tools whose arguments must satisfy their schemas. */
  readonly strict: ReadonlySet<string>;
  readonly toolChoice: ToolChoice;
  readonly parallel: boolean;
  readonly format: ResponseFormat;
}

export interface CompletionRequest {
  readonly sampling: Sampling;
  readonly prompts: readonly (string | readonly number[])[];
}

export function readChat(body: unknown): ChatRequest {
  const given = parsed(chatSchema, body);
  const tools = given.tools ?? [];
  const names = tools.map(({ function: { name } }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw wrongField("tools", `expected each name once, got ${twice} twice`);
  const choice = given.tool_choice ?? "auto";
  if (typeof choice === "object" && !names.includes(choice.function.name))
    throw wrongField("tool_choice", expected("its name", `one of ${names.join(", ") || "no tools"}`, choice.function.name));
  if (choice === "required" && tools.length === 0) throw wrongField("tool_choice", "required needs tools, and there are none");
  const format = given.response_format ?? { type: "text" };
  const logprobs = given.logprobs === true ? (given.top_logprobs ?? 0) : undefined;
  if (logprobs === undefined && (given.top_logprobs ?? 0) > 0) throw wrongField("top_logprobs", "expected logprobs: true beside it");
  return {
    sampling: { ...samplingOf(given), maxTokens: given.max_completion_tokens ?? given.max_tokens ?? undefined, logprobs },
    messages: messagesOf(given.messages),
    tools: tools.map(toolOf),
    strict: new Set(tools.flatMap(({ function: { name, strict } }) => (strict === true ? [name] : []))),
    toolChoice: typeof choice === "object" ? { type: "named", name: choice.function.name } : { type: choice },
    parallel: given.parallel_tool_calls ?? true,
    format:
      format.type === "json_schema"
        ? { type: "schema", schema: format.json_schema.schema }
        : { type: format.type === "json_object" ? "json" : "text" },
  };
}

export function readCompletion(body: unknown): CompletionRequest {
  const given = parsed(completionSchema, body);
  const { prompt } = given;
  const one = typeof prompt === "string" || typeof prompt[0] === "number";
  return {
    sampling: { ...samplingOf(given), maxTokens: given.max_tokens ?? 16, logprobs: given.logprobs ?? undefined },
    prompts: (one ? [prompt] : prompt) as readonly (string | readonly number[])[],
  };
}

type Given = z.infer<z.ZodObject<typeof sampling>> & { readonly metadata?: { readonly session?: string | undefined } | null | undefined };

function samplingOf(given: Given): Omit<Sampling, "maxTokens" | "logprobs"> {
  const { model, n, temperature, seed, stop, stream, stream_options: options, metadata } = given;
  return {
    model,
    count: n ?? 1,
    temperature: temperature ?? 1,
    stop: typeof stop === "string" ? [stop] : (stop ?? []),
    seed: seed ?? undefined,
    stream: stream ?? false,
    includeUsage: options?.include_usage ?? false,
    session: metadata?.session,
  };
}

/** The first fault alone, with its path. */
export function parsed<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  if (issue?.code === "unrecognized_keys") {
    const [key = ""] = issue.keys;
    const param = [...issue.path, key].join(".");
    throw new ApiError(400, `${param}: expected a supported field; this one is not, and is not ignored`, {
      param,
      code: "unsupported_parameter",
    });
  }
  throw wrongField(issue?.path.join(".") === "" ? "body" : (issue?.path.join(".") ?? "body"), issue?.message ?? "not understood");
}
