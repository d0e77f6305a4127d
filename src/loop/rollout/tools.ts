/**
 * Tools: how one is defined, and how the calls of one assistant turn are run. A call never throws out of here: whatever goes
 * wrong becomes a result text that tells the model what was wrong, and a record that tells people the same.
 */
import { z } from "zod";
import { expected, messageOf, ToolError, ToolUnavailableError } from "../../errors.ts";
import type { Json, JsonObject, Message, Task, Tool, ToolCall, ToolContext } from "../../types.ts";
import type { ToolBudget } from "./tool-budget.ts";

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
const MAX_ISSUES = 3;

interface ToolDefinition<Shape extends z.ZodRawShape> {
  readonly name: string;
  readonly description: string;
  /** A strict object: an argument that the schema does not name is an error, never ignored. */
  readonly parameters: z.ZodObject<Shape, z.core.$strict>;
  readonly run: (args: z.output<z.ZodObject<Shape, z.core.$strict>>, context: ToolContext) => Promise<string> | string;
  readonly readOnly?: boolean;
  readonly cost?: NonNullable<Tool["cost"]>;
}

/** Makes a tool from a zod schema. Throws `ToolError` for a bad name, a schema that is not strict, or one that has no JSON Schema. */
export function defineTool<Shape extends z.ZodRawShape>(definition: ToolDefinition<Shape>): Tool {
  const { name, description, parameters, run, ...more } = definition;
  if (!NAME.test(name)) {
    throw new ToolError(expected("tool name", "a letter, then letters, digits, _ or -, at most 64", JSON.stringify(name)));
  }
  return {
    ...more,
    spec: { name, description, parameters: jsonSchema(name, parameters) },
    validate: (args) => {
      const result = parameters.safeParse(args);
      if (result.success) return { ok: true, args: result.data as JsonObject };
      return { ok: false, reason: explain(result.error, args, Object.keys(parameters.shape)) };
    },
    run: (args, context) => run(args as z.output<typeof parameters>, context),
  };
}

function jsonSchema(name: string, parameters: z.ZodType): JsonObject {
  let schema: Record<string, unknown>;
  try {
    schema = z.toJSONSchema(parameters, { io: "input", override: ({ jsonSchema: node }) => dropSafeIntegerBounds(node) });
  } catch (cause) {
    throw new ToolError(`tool ${name}: its parameters have no JSON Schema: ${messageOf(cause)}`, { cause });
  }
  if (schema["type"] !== "object" || schema["additionalProperties"] !== false) {
    const found = "one that lets unknown arguments through";
    throw new ToolError(expected(`tool ${name}: parameters`, "a strict object schema", found, "use z.strictObject"));
  }
  delete schema["$schema"];
  return schema as JsonObject;
}

/** zod writes the range of exact doubles for every integer; it says nothing to a model and costs tokens. */
function dropSafeIntegerBounds(node: { minimum?: number; maximum?: number }): void {
  if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum;
  if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum;
}

/** One short line for the model: at most three faults, each naming the argument, what was wanted and what came. */
function explain(error: z.ZodError, args: JsonObject, known: readonly string[]): string {
  const faults = error.issues.map((issue) => {
    if (issue.code === "unrecognized_keys") {
      return `unknown argument ${issue.keys.map((key) => JSON.stringify(key)).join(", ")} (allowed: ${known.join(", ") || "none"})`;
    }
    const where = issue.path.map(String).join(".") || "arguments";
    const found = valueAt(args, issue.path);
    const wanted = wantedBy(issue);
    if (found === undefined) return `"${where}" is missing, it must be ${wanted}`;
    return `"${where}" must be ${wanted}, got ${clip(JSON.stringify(found), 60)}`;
  });
  const more = faults.length > MAX_ISSUES ? `; and ${faults.length - MAX_ISSUES} more` : "";
  return faults.slice(0, MAX_ISSUES).join("; ") + more;
}

function wantedBy(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.expected === "int" ? "a whole number" : `${/^[aeio]/.test(issue.expected) ? "an" : "a"} ${issue.expected}`;
    case "invalid_value":
      return `one of ${issue.values.map((value) => JSON.stringify(value)).join(", ")}`;
    case "too_small":
      return `at least ${issue.minimum}${unitOf(issue.origin)}`;
    case "too_big":
      return `at most ${issue.maximum}${unitOf(issue.origin)}`;
    case "custom":
    case "invalid_element":
    case "invalid_format":
    case "invalid_key":
    case "invalid_union":
    case "not_multiple_of":
    case "unrecognized_keys":
      return `right (${issue.message})`;
  }
}

function unitOf(origin: string): string {
  return origin === "string" ? " characters" : origin === "array" || origin === "set" ? " items" : "";
}

function valueAt(args: JsonObject, path: readonly PropertyKey[]): Json | undefined {
  let value: Json | undefined = args;
  for (const part of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<PropertyKey, Json>)[part];
  }
  return value;
}

// ------------------------------------------------------------------------------------------------------- running calls

export type CallOutcome = "ok" | "unknown-tool" | "bad-arguments" | "error" | "timeout" | "not-run";

/** What became of one call. `resultText` is what the model was shown; `ms` is wall time. */
export interface CallRecord {
  readonly call: ToolCall;
  readonly outcome: CallOutcome;
  readonly resultText: string;
  readonly ms: number;
  /** In the tool's unit; left out where the tool has no price. */
  readonly cost?: number;
}

export interface CallLimits {
  /** Milliseconds that one call may take. A tool that ignores its signal is left behind, not stopped. */
  readonly deadlineMs: number;
  /** Characters of a result that the model sees; a cut is stated after them. */
  readonly maxResultChars: number;
  /** Calls of one turn that are run; the others are answered "not run". */
  readonly maxCallsPerTurn: number;
}

const DEFAULT_CALL_LIMITS: CallLimits = { deadlineMs: 10_000, maxResultChars: 4_000, maxCallsPerTurn: 8 };

export interface CallScope extends Partial<CallLimits> {
  readonly task: Task;
  /** The episode's own state; shared by the calls of the episode and by nothing else. */
  readonly state: Map<string, unknown>;
  readonly signal: AbortSignal;
  /** What the episode may still use; left out, nothing is counted. */
  readonly budget?: ToolBudget;
}

/**
 * Runs the calls of one turn one after the other; neighbours that only read run at the same time. Messages and records are in call
 * order, one for each call. Rejects with a `ToolUnavailableError` of a tool, and for nothing else that a tool does.
 */
export async function runToolCalls(
  tools: readonly Tool[],
  calls: readonly ToolCall[],
  scope: CallScope,
): Promise<{ readonly messages: readonly Message[]; readonly records: readonly CallRecord[] }> {
  const limits = limitsOf(scope);
  const records: CallRecord[] = [];
  for (const together of batchesOf(tools, calls)) {
    const started = performance.now();
    const one = async (call: ToolCall, place: number): Promise<CallRecord> => {
      const { outcome, text, cost } = await answer({ tools, call, position: records.length + place, scope, limits });
      const resultText = cut(text, limits.maxResultChars);
      return { call, outcome, resultText, ms: performance.now() - started, ...(cost === undefined ? {} : { cost }) };
    };
    const ended = await Promise.all(together.map(one));
    scope.budget?.use({ seconds: (performance.now() - started) / 1000, cost: ended.reduce((sum, { cost = 0 }) => sum + cost, 0) });
    records.push(...ended);
  }
  return { messages: records.map(({ call, resultText }) => toolMessage(call, resultText)), records };
}

/** Calls in order, those that only read together with their like. */
function batchesOf(tools: readonly Tool[], calls: readonly ToolCall[]): readonly (readonly ToolCall[])[] {
  const reads = ({ name }: ToolCall): boolean => tools.find(({ spec }) => spec.name === name)?.readOnly === true;
  const batches: ToolCall[][] = [];
  for (const call of calls) {
    const open = batches.at(-1);
    if (open !== undefined && reads(call) && reads(open[0]!)) open.push(call);
    else batches.push([call]);
  }
  return batches;
}

/** The answer to one call, as the conversation carries it. */
export function toolMessage(call: ToolCall, content: string): Message {
  return { role: "tool", content, toolCallId: call.id, name: call.name };
}

/** The limits with their defaults; throws `ToolError` for one that is not a positive number. */
export function limitsOf(given: Partial<CallLimits>): CallLimits {
  const limits: CallLimits = {
    deadlineMs: given.deadlineMs ?? DEFAULT_CALL_LIMITS.deadlineMs,
    maxResultChars: given.maxResultChars ?? DEFAULT_CALL_LIMITS.maxResultChars,
    maxCallsPerTurn: given.maxCallsPerTurn ?? DEFAULT_CALL_LIMITS.maxCallsPerTurn,
  };
  for (const [name, value] of Object.entries(limits)) {
    if (!(value > 0)) throw new ToolError(expected(`tool limit ${name}`, "a positive number", String(value)));
  }
  return limits;
}

interface Answered {
  readonly outcome: CallOutcome;
  readonly text: string;
  readonly cost?: number;
}

interface OneCall {
  readonly tools: readonly Tool[];
  readonly call: ToolCall;
  readonly position: number;
  readonly scope: CallScope;
  readonly limits: CallLimits;
}

async function answer({ tools, call, position, scope, limits }: OneCall): Promise<Answered> {
  if (position >= limits.maxCallsPerTurn) {
    return { outcome: "not-run", text: `error: not run: at most ${limits.maxCallsPerTurn} calls per turn; call again in the next turn` };
  }
  if (scope.signal.aborted) return { outcome: "not-run", text: "error: not run: the episode was stopped" };
  const tool = tools.find((candidate) => candidate.spec.name === call.name);
  if (tool === undefined) {
    const names = tools.map((candidate) => candidate.spec.name).join(", ") || "none";
    return { outcome: "unknown-tool", text: `error: no tool ${clip(JSON.stringify(call.name), 60)}; tools: ${names}` };
  }
  try {
    const checked = tool.validate(call.arguments);
    if (!checked.ok) return { outcome: "bad-arguments", text: `error: ${checked.reason}` };
    const spent = scope.budget?.take() ?? null;
    if (spent !== null) return { outcome: "not-run", text: spent };
    const deadlineMs = Math.min(limits.deadlineMs, scope.budget?.millisecondsLeft() ?? Infinity);
    const ran = runWithDeadline(tool, checked.args, { scope, deadlineMs }).catch(failed);
    return priced(tool, checked.args, await ran);
  } catch (cause) {
    return failed(cause);
  }
}

function failed(cause: unknown): Answered {
  if (cause instanceof ToolUnavailableError) throw cause;
  return { outcome: "error", text: `error: ${messageOf(cause)}` };
}

/** The answer with its price: that of a call which had no result is known only where the price is fixed. */
function priced({ cost, spec }: Tool, args: JsonObject, answered: Answered): Answered {
  if (cost === undefined || (typeof cost === "function" && answered.outcome !== "ok")) return answered;
  const price = typeof cost === "function" ? cost(answered.text, args) : cost;
  if (Number.isFinite(price) && price >= 0) return { ...answered, cost: price };
  throw new ToolError(expected(`tool ${spec.name}: cost`, "a finite number of at least 0", String(price)));
}

interface Deadline {
  readonly scope: CallScope;
  readonly deadlineMs: number;
}

async function runWithDeadline(tool: Tool, args: JsonObject, { scope, deadlineMs }: Deadline): Promise<Answered> {
  const stop = new AbortController();
  const context: ToolContext = Object.freeze({ signal: stop.signal, task: scope.task, state: scope.state });
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  const stopped = new Promise<Answered>((resolve) => {
    const end = (text: string): void => {
      resolve({ outcome: "timeout", text });
      stop.abort(new ToolError(text));
    };
    timer = setTimeout(() => end(`error: ${tool.spec.name} took longer than ${Math.round(deadlineMs)} ms and was stopped`), deadlineMs);
    onAbort = () => end("error: stopped: the time of the episode is over");
    scope.signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    const answered = await Promise.race([stopped, finished(tool, args, context)]);
    if (answered.outcome === "timeout" && !scope.signal.aborted) await tool.probe?.({ ...context, signal: scope.signal });
    return answered;
  } finally {
    clearTimeout(timer);
    if (onAbort !== undefined) scope.signal.removeEventListener("abort", onAbort);
  }
}

async function finished(tool: Tool, args: JsonObject, context: ToolContext): Promise<Answered> {
  const text: unknown = await tool.run(args, context);
  if (typeof text !== "string") throw new ToolError(expected(`tool ${tool.spec.name}`, "a string as its result", typeof text));
  return { outcome: "ok", text };
}

function cut(text: string, limit: number): string {
  if (text.length <= limit) return text;
  return `${clip(text, limit)}\n[cut: the first ${limit} of ${text.length} characters]`;
}

/** The first `limit` UTF-16 units, without half a surrogate pair at the end. */
function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = text.slice(0, limit);
  return /[\uD800-\uDBFF]$/.test(head) ? head.slice(0, -1) : head;
}
