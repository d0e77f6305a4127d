/**
 * The environment that most are made of: messages in, tool calls run, an answer ends the episode or is answered. An episode holds its
 * own state; nothing is shared between two of them, so any number may run at once.
 */
import { EnvError, expected } from "../../errors.ts";
import type { Env, EnvStep, Episode, Message, Reward, Split, Task, TaskSource, Tool, ToolCall, ToolContext, Turn } from "../../types.ts";
import { toolUse, type ToolExpectation } from "../../tool-use.ts";
import { checkBudget, openBudget, type BudgetLimits, type ToolBudget } from "./tool-budget.ts";
import { limitsOf, runToolCalls, toolMessage, type CallLimits, type CallRecord } from "./tools.ts";

/** What an environment's own measures are taken from, when the episode has ended. */
export interface EpisodeView {
  readonly task: Task;
  readonly turns: readonly Turn[];
  readonly calls: readonly CallRecord[];
  /** Turns with a call that could not be read. */
  readonly malformed: number;
  /** Text of the answer that ended the episode; null if it ended otherwise. */
  readonly answer: string | null;
  readonly state: ReadonlyMap<string, unknown>;
}

/** What an answer is answered from: the state is the one that tools have, and `turns` are those before this one. */
export interface AnswerContext extends ToolContext {
  readonly turns: readonly Turn[];
}

export interface EnvDefinition {
  readonly name: string;
  /** A function of the split, or one source, which then is the train split and leaves no test split. */
  readonly tasks: TaskSource | ((split: Split) => TaskSource);
  readonly tools?: readonly Tool[];
  readonly reward: Reward;
  readonly reference?: (task: Task) => readonly Message[];
  /** Answers a turn that calls no tool: a user, a game. Left out, such a turn ends the episode. */
  readonly respond?: (answer: string, context: AnswerContext) => EnvStep | Promise<EnvStep>;
  /** Asked when the calls of a turn were run; true ends the episode, as a tool named "submit" would. */
  readonly over?: (state: ReadonlyMap<string, unknown>, task: Task) => boolean;
  /** Who speaks first, where `respond` hands over to other agents. */
  readonly agent?: string;
  readonly inputs?: Env["inputs"];
  /**
   * Assistant turns of an episode: a rule of the task, so reaching it ends the episode as done and without an answer. The calls of the
   * last turn are answered "not run", because nobody would see their results.
   */
  readonly maxTurns?: number;
  /**
   * Of each call, and of the whole episode. What is spent of the episode's limits is told to the model at its next call; a turn that
   * goes on calling cuts the episode, which is a truncation.
   */
  readonly limits?: Partial<CallLimits & BudgetLimits>;
  /** What a task asks of tools, so that needed calls that were not made, and others that were, are measured. */
  readonly expects?: (task: Task) => ToolExpectation;
  /** Measures beside the reward, never part of it; finite numbers. */
  readonly measures?: (episode: EpisodeView) => Readonly<Record<string, number>>;
}

const MALFORMED = "error: the tool call could not be read and was not run";
const OUT_OF_TURNS = "error: not run: no turns are left";

/** Makes an environment. Throws `EnvError` for two tools of one name, `maxTurns` below 1, or (later) a split that does not exist. */
export function defineEnv(definition: EnvDefinition): Env {
  const { name, tasks, tools = [], reward, reference, agent, inputs, maxTurns = 8 } = definition;
  const limits = limitsOf(definition.limits ?? {});
  checkBudget(definition.limits ?? {});
  if (!(maxTurns >= 1)) throw new EnvError(expected(`environment ${name}: maxTurns`, "at least 1", String(maxTurns)));
  const twice = tools.find((tool, i) => tools.findIndex((other) => other.spec.name === tool.spec.name) !== i);
  if (twice !== undefined) {
    throw new EnvError(expected(`environment ${name}: tools`, "one tool of each name", `two named ${twice.spec.name}`));
  }
  return {
    name,
    tools,
    reward,
    tasks: (split) => {
      if (typeof tasks === "function") return tasks(split);
      if (split === "train") return tasks;
      const remedy = "give a function of the split";
      throw new EnvError(expected(`environment ${name}: tasks`, "a test split", "one source of tasks, used for training", remedy));
    },
    start: (task) => startEpisode(task, { definition, limits, maxTurns }),
    ...(reference === undefined ? {} : { reference }),
    ...(agent === undefined ? {} : { agent }),
    ...(inputs === undefined ? {} : { inputs }),
  };
}

interface EpisodeOptions {
  readonly definition: EnvDefinition;
  readonly limits: CallLimits;
  readonly maxTurns: number;
}

function startEpisode(task: Task, { definition, limits, maxTurns }: EpisodeOptions): Episode {
  const state = new Map<string, unknown>();
  const closed = new AbortController();
  const turns: Turn[] = [];
  const calls: CallRecord[] = [];
  const budget = openBudget(definition.limits ?? {});
  let done = false;

  const respond = async (turn: Turn, signal: AbortSignal): Promise<EnvStep> => {
    const last = turns.length + 1 >= maxTurns;
    switch (turn.parse) {
      case "answer": {
        if (definition.respond === undefined) return { messages: [], done: true };
        const step = await definition.respond(turn.message.content, { signal, task, state, turns });
        return last ? { ...step, done: true } : step;
      }
      case "truncated":
        // What kind of end it was is the rollout's to say, from the finish reason; here there is nothing left to answer.
        return { messages: [], done: true };
      case "malformedToolCall":
        return { messages: [{ role: "user", content: MALFORMED }], done: last };
      case "toolCalls": {
        const wanted = turn.message.toolCalls ?? [];
        const spent = budget.told();
        const scope = { ...limits, task, state, signal, budget };
        const refusal = last ? OUT_OF_TURNS : spent;
        const ran = refusal === null ? await runToolCalls(definition.tools ?? [], wanted, scope) : notRun(wanted, refusal);
        calls.push(...ran.records);
        const over = last || (definition.over?.(state, task) ?? false);
        return { messages: ran.messages, done: over, ...(over || spent === null ? {} : { limit: "toolBudget" }) };
      }
    }
  };

  return {
    async step(turn, signal) {
      if (done) {
        const where = `environment ${definition.name}: step`;
        throw new EnvError(expected(where, "no turn after the end", "another turn", "start a new episode"));
      }
      const step = await respond(turn, AbortSignal.any([signal, closed.signal]));
      turns.push({ ...turn, replies: step.messages });
      done = step.done || step.limit !== undefined;
      return step;
    },
    measures() {
      const final = turns.at(-1);
      const answer = final?.parse === "answer" ? final.message.content : null;
      const malformed = turns.filter((turn) => turn.parse === "malformedToolCall").length;
      const own = definition.measures?.({ task, turns, calls, malformed, answer, state }) ?? {};
      const tooled = definition.tools?.length ? useOfTools(definition, { task, turns, calls, malformed, answer, state }, budget) : {};
      return checked(definition.name, { ...countCalls(turns, calls, malformed), ...tooled, ...own });
    },
    async [Symbol.asyncDispose]() {
      done = true;
      closed.abort(new EnvError(`environment ${definition.name}: the episode was closed`));
      await Promise.allSettled([...state.values()].map(closeHeld));
      state.clear();
    },
  };
}

/** Closes what a tool keeps for its episode. */
async function closeHeld(value: unknown): Promise<void> {
  if (typeof value === "object" && value !== null && Symbol.asyncDispose in value) await (value as AsyncDisposable)[Symbol.asyncDispose]();
}

function notRun(wanted: readonly ToolCall[], text: string): { messages: readonly Message[]; records: readonly CallRecord[] } {
  return {
    messages: wanted.map((call) => toolMessage(call, text)),
    records: wanted.map((call) => ({ call, outcome: "not-run", resultText: text, ms: 0 })),
  };
}

/** Counts that every tool environment reports; `tools/errors` are calls that reached no result for any reason but a limit. */
function countCalls(turns: readonly Turn[], calls: readonly CallRecord[], malformed: number): Record<string, number> {
  return {
    turns: turns.length,
    "tools/calls": calls.length,
    "tools/errors": calls.filter(({ outcome }) => outcome !== "ok" && outcome !== "not-run").length,
    "tools/notRun": calls.filter(({ outcome }) => outcome === "not-run").length,
    "tools/malformedTurns": malformed,
  };
}

/** The mistakes, what was spent, and whether the episode's limits were; times stand under `seconds/`, as those of a step do. */
function useOfTools({ expects, tools = [] }: EnvDefinition, view: EpisodeView, budget: ToolBudget): Record<string, number> {
  const { task } = view;
  const question = task.prompt.map(({ content }) => content).join("\n");
  const mistakes = toolUse({ ...view, expects: expects?.(task), question });
  const { seconds, cost } = budget.used();
  return {
    ...Object.fromEntries(Object.entries(mistakes).map(([name, value]) => [`tools/${name}`, value])),
    "tools/spent": budget.told() === null ? 0 : 1,
    ...(tools.some((tool) => tool.cost !== undefined) ? { "tools/cost": cost } : {}),
    "seconds/tools": seconds,
  };
}

function checked(name: string, measures: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  for (const [key, value] of Object.entries(measures)) {
    if (!Number.isFinite(value)) throw new EnvError(expected(`environment ${name}: measure ${key}`, "a finite number", String(value)));
  }
  return measures;
}
