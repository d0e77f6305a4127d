/**
 * Task -> Trajectory -> Scored: what an agent was asked, did and earned, and the environment it did it in. Everything is readonly:
 * a stage makes a new noun and annotates nothing that it was given.
 */

/** A JSON value. Tool arguments and task data are JSON and nothing else. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Counts published weights. Branded: mixing it with another number would be silent and ruinous. */
export type PolicyVersion = number & { readonly __policyVersion: true };
/** A number that is neither NaN nor infinite; its one constructor is `finite()` in errors.ts. */
export type Finite = number & { readonly __finite: true };

// ---------------------------------------------------------------------------------------------- messages and tools

/** One tool call in its one internal form: arguments are a JSON object, never a JSON string. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
}

export interface Message {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** Assistant only. */
  readonly toolCalls?: readonly ToolCall[];
  /** Assistant only: text inside a reasoning block, without its tags. */
  readonly reasoning?: string;
  /** Tool only: which call this answers, and the tool's name. */
  readonly toolCallId?: string;
  readonly name?: string;
}

/** What the model is told of a tool: a JSON schema for its arguments. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
}

export interface ToolContext {
  readonly signal: AbortSignal;
  readonly task: Task;
  /** State of this episode alone; made anew for every rollout. What has `Symbol.asyncDispose` is closed with the episode. */
  readonly state: Map<string, unknown>;
}

/** A tool that can be run. `run` gets arguments that satisfied the schema; a thrown error is told to the model. */
export interface Tool {
  readonly spec: ToolSpec;
  /** Returns the arguments as validated, or the reason why they are wrong. */
  readonly validate: (
    args: JsonObject,
  ) => { readonly ok: true; readonly args: JsonObject } | { readonly ok: false; readonly reason: string };
  readonly run: (args: JsonObject, context: ToolContext) => Promise<string> | string;
  /** True: it changes nothing, so such calls of one turn run at the same time. Others run one after another. */
  readonly readOnly?: boolean;
  /** What a call costs, in a unit of the user's: a price, or a function of the result text. Finite and at least 0; default 0. */
  readonly cost?: number | ((result: string, args: JsonObject) => number);
  /** Asked when a call took too long. Throws `ToolUnavailableError` if what answers it is gone, and the call was not just slow. */
  readonly probe?: (context: ToolContext) => Promise<void>;
}

// ------------------------------------------------------------------------------------------------------------ task

export interface Task {
  readonly id: string;
  readonly prompt: readonly Message[];
  /** What the grader needs (gold answer, facts); the policy never sees it. */
  readonly data: JsonObject;
}

export type Split = "train" | "test";

/** An addressable list of tasks: `at(i)` is the same task at every call, on every machine. */
export interface TaskSource {
  readonly size: number;
  at(index: number): Task;
}

// ------------------------------------------------------------------------------------------------------ trajectory

/** Why sampling of one turn stopped. Code that switches over it does so exhaustively. */
export type FinishReason =
  | { readonly type: "eos"; readonly id: number }
  | { readonly type: "stopString"; readonly value: string }
  | { readonly type: "length" }
  | { readonly type: "timeout" }
  | { readonly type: "error"; readonly message: string };

/** Tokens that the policy was given: prompt, tool output, template glue. Never trained. */
export interface ContextSpan {
  readonly kind: "context";
  readonly ids: readonly number[];
}

/** Tokens that the policy sampled. Made by the sampler only; log-probs are at the sampling temperature, unfiltered. */
export interface SampledSpan {
  readonly kind: "sampled";
  readonly ids: readonly number[];
  /** [ids.length], natural log, of the distribution that was sampled from. */
  readonly logprobs: readonly number[];
  readonly finish: FinishReason;
  readonly version: PolicyVersion;
  readonly temperature: number;
}

export type Span = ContextSpan | SampledSpan;

/** One token sequence exactly as the sampler saw it. The training mask is derived from span kind, never stored. */
export interface Row {
  readonly spans: readonly Span[];
}

/** How an assistant turn's text was read. */
export type TurnParse = "answer" | "toolCalls" | "malformedToolCall" | "truncated";

export interface Turn {
  /** Where the sampled span of this turn is. */
  readonly row: number;
  readonly span: number;
  readonly message: Message;
  readonly parse: TurnParse;
  /** What the environment answered (tool results, next user message), and what agents that are not trained said meanwhile. */
  readonly replies: readonly Message[];
  /** Who spoke, where several agents share the policy. */
  readonly agent?: string;
  /** Reward given to this turn by the environment, if any. */
  readonly reward?: Finite;
}

/** Why an episode ended. "done" is terminal; every other is truncation and is never treated as terminal. */
export type EpisodeEnd =
  | { readonly type: "done" }
  | { readonly type: "length" }
  | { readonly type: "turnLimit" }
  | { readonly type: "toolBudget" }
  | { readonly type: "timeout" }
  | { readonly type: "error"; readonly boundary: string; readonly message: string };

export interface Trajectory {
  readonly id: string;
  readonly task: Task;
  /** Index of the sample inside its group. */
  readonly sample: number;
  readonly rows: readonly Row[];
  readonly turns: readonly Turn[];
  /** The whole conversation, for people and graders; a view, never encoded again. */
  readonly messages: readonly Message[];
  readonly end: EpisodeEnd;
  /** Measures of the episode (tool-use counts and the like); finite numbers. */
  readonly measures: Readonly<Record<string, number>>;
  readonly seconds: number;
}

// ---------------------------------------------------------------------------------------------------------- reward

/** A grader's answer. A grader that could not grade says so; that never becomes a score of 0. */
export type Verdict =
  | {
      readonly type: "scored";
      readonly score: Finite;
      /** Named parts of the score, each logged. */
      readonly components: Readonly<Record<string, Finite>>;
      readonly explanation: string;
    }
  | { readonly type: "unscorable"; readonly reason: string }
  | { readonly type: "infrastructure"; readonly reason: string };

/** Grades a finished episode. Plain errors that it throws are recorded as `infrastructure`. */
export type Reward = (episode: { readonly task: Task; readonly messages: readonly Message[]; readonly turns: readonly Turn[] }) =>
  | Verdict
  | Promise<Verdict>;

export interface Scored {
  readonly trajectory: Trajectory;
  readonly verdict: Verdict;
}

/** All samples of one task of one step. */
export interface Group {
  readonly task: Task;
  readonly members: readonly Scored[];
  /** The policy's most likely answer, for algorithms that compare with it; it is never trained on. */
  readonly greedy?: Scored;
}

/** What people and machines can say about an answer; the preference and online learners speak it. */
export type Feedback =
  | { readonly type: "binary"; readonly good: boolean }
  | { readonly type: "pair"; readonly chosen: string; readonly rejected: string }
  | { readonly type: "rank"; readonly order: readonly string[] }
  | { readonly type: "score"; readonly value: 0 | 1 | 2 | 3 | 4 }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "verdict"; readonly verdict: Verdict };

// ----------------------------------------------------------------------------------------------------- environment

/** What an environment answers to one assistant turn. */
export interface EnvStep {
  readonly messages: readonly Message[];
  readonly done: boolean;
  readonly reward?: Finite;
  /** The episode is cut here, by a limit of the environment's: a truncation. */
  readonly limit?: "toolBudget";
  /** Another agent speaks next. `messages` are then told to people and graders alone, and that agent sees its own prompt. */
  readonly next?: NextAgent;
}

/** Several agents that share one policy: each turn that begins with a prompt of its own is a row of its own. */
export interface NextAgent {
  readonly agent: string;
  /** The whole conversation as this agent sees it. */
  readonly prompt: readonly Message[];
  /** False: sampled from the policy, and no part of any row; its message is a reply to the turn before it. Default true. */
  readonly trained?: boolean;
}

/** One rollout's own instance of an environment: no state is shared with another. */
export interface Episode extends AsyncDisposable {
  /** What there is to see before the first turn (a page, a room); it stands at the end of the prompt's last message. Called once, first. */
  opening?(signal: AbortSignal): Promise<string>;
  /** `turn.replies` is empty; the answer of `step` fills it. */
  step(turn: Turn, signal: AbortSignal): Promise<EnvStep>;
  /** Called once, when the episode has ended. */
  measures(): Readonly<Record<string, number>>;
}

/** PLUG-IN 1. Environments speak messages; the rollout stage owns tokens. */
export interface Env {
  readonly name: string;
  /** Who speaks first, where several agents share the policy. */
  readonly agent?: string;
  readonly tools: readonly Tool[];
  tasks(split: Split): TaskSource;
  start(task: Task): Episode;
  readonly reward: Reward;
  /** The assistant turns of a right solution, for the preflight (must score 1) and for supervised warm-up. */
  reference?(task: Task): readonly Message[];
  /** Files that its tasks come from: what they held is a part of a run, and a run that is resumed needs the same. */
  readonly inputs?: readonly string[];
}
