/**
 * One recorded rollout as one JSON line: the trajectory, its verdict and its advantages. Log-probs and advantages are float32
 * numbers and come back bit for bit; they are written with the fewest digits that do so.
 */
import { z } from "zod";
import { RunError, expected } from "../../errors.ts";
import type { Credit, Json, JsonObject, Scored, Trajectory } from "../../types.ts";

/** `credit` is null for a rollout that trained nothing (not scored, or dropped with its group). */
export interface RolloutRecord {
  readonly scored: Scored;
  readonly credit: Credit | null;
}

const json = z.json() as z.ZodType<Json>;
const jsonObject: z.ZodType<JsonObject> = z.record(z.string(), json);
const float = z.number().transform(Math.fround);
const toolCall = z.strictObject({ id: z.string(), name: z.string(), arguments: jsonObject });
const message = z.strictObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string(),
  toolCalls: z.array(toolCall).exactOptional(),
  reasoning: z.string().exactOptional(),
  toolCallId: z.string().exactOptional(),
  name: z.string().exactOptional(),
});
const finish = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("eos"), id: z.int() }),
  z.strictObject({ type: z.literal("stopString"), value: z.string() }),
  z.strictObject({ type: z.literal("length") }),
  z.strictObject({ type: z.literal("timeout") }),
  z.strictObject({ type: z.literal("error"), message: z.string() }),
]);
const span = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("context"), ids: z.array(z.int()) }),
  z.strictObject({
    kind: z.literal("sampled"),
    ids: z.array(z.int()),
    logprobs: z.array(float),
    finish,
    version: z.int(),
    temperature: z.number(),
  }),
]);
const turn = z.strictObject({
  row: z.int(),
  span: z.int(),
  message,
  parse: z.enum(["answer", "toolCalls", "malformedToolCall", "truncated"]),
  replies: z.array(message),
  agent: z.string().exactOptional(),
  reward: z.number().exactOptional(),
});
const end = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal(["done", "length", "turnLimit", "toolBudget", "timeout"]) }),
  z.strictObject({ type: z.literal("error"), boundary: z.string(), message: z.string() }),
]);
const trajectorySchema = z.strictObject({
  id: z.string(),
  task: z.strictObject({ id: z.string(), prompt: z.array(message), data: jsonObject }),
  sample: z.int(),
  rows: z.array(z.strictObject({ spans: z.array(span) })),
  turns: z.array(turn),
  messages: z.array(message),
  end,
  measures: z.record(z.string(), z.number()),
  seconds: z.number(),
});
const verdict = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("scored"), score: z.number(), components: z.record(z.string(), z.number()), explanation: z.string() }),
  z.strictObject({ type: z.literal(["unscorable", "infrastructure"]), reason: z.string() }),
]);
const lineSchema = z.strictObject({ trajectory: trajectorySchema, verdict, advantages: z.array(z.array(float)).nullable() });

/** Refuses a number that is not finite, and log-probs or advantages that do not fit their tokens. */
export function encodeRollout(scored: Scored, credit: Credit | null): string {
  const { trajectory, verdict: given } = scored;
  const where = `trajectory ${trajectory.id}`;
  checkAligned(trajectory, credit, where);
  const rows = trajectory.rows.map(({ spans }) => ({
    spans: spans.map((each) => (each.kind === "sampled" ? { ...each, logprobs: each.logprobs.map(shortestFloat) } : each)),
  }));
  const advantages = credit?.advantages.map((row) => Array.from(row, shortestFloat)) ?? null;
  return JSON.stringify({ trajectory: { ...trajectory, rows }, verdict: given, advantages }, (key, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value))
      throw new RunError(expected(`${where}: ${key}`, "a finite number", String(value)));
    return value;
  });
}

export function decodeRollout(line: string, where: string): RolloutRecord {
  let parsed: z.infer<typeof lineSchema>;
  try {
    parsed = lineSchema.parse(JSON.parse(line));
  } catch (cause) {
    const issue = cause instanceof z.ZodError ? `a wrong ${cause.issues[0]?.path.join(".")}` : "damaged JSON";
    throw new RunError(expected(where, "a recorded rollout", issue), { cause });
  }
  // Brands are gone in JSON; the schema has checked what they stand for.
  const scored = { trajectory: parsed.trajectory, verdict: parsed.verdict } as unknown as Scored;
  const advantages = parsed.advantages?.map((row) => Float32Array.from(row)) ?? null;
  const credit = advantages === null ? null : { trajectory: scored.trajectory, advantages };
  checkAligned(scored.trajectory, credit, where);
  return { scored, credit };
}

/** The shortest decimal that is `value` again after rounding to float32. */
function shortestFloat(value: number): number {
  const single = Math.fround(value);
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(single.toPrecision(digits));
    if (Math.fround(short) === single) return short;
  }
  return Number.isFinite(single) ? Number(single.toPrecision(9)) : single;
}

function checkAligned(trajectory: Trajectory, credit: Credit | null, where: string): void {
  trajectory.rows.forEach((row, index) => {
    let sampled = 0;
    for (const each of row.spans) {
      if (each.kind !== "sampled") continue;
      sampled += each.ids.length;
      if (each.logprobs.length !== each.ids.length) {
        throw new RunError(expected(`${where}: row ${index}`, `${each.ids.length} log-probs`, String(each.logprobs.length)));
      }
    }
    const given = credit?.advantages[index]?.length;
    if (credit !== null && given !== sampled)
      throw new RunError(expected(`${where}: row ${index}`, `${sampled} advantages`, String(given)));
  });
}
