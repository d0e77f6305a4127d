/**
 * How well an episode used its tools, beside the reward and never part of it. Derived from what the task needs, what was called and
 * how the answer came out, so that every environment can say which of these mistakes the policy makes less often.
 */
import type { JsonObject } from "../../types.ts";
import type { CallRecord } from "../rollout/tools.ts";

/** One call that the task needs: which tool, and the result text that only right arguments give. The last need yields the answer. */
interface ToolNeed {
  readonly tool: string;
  readonly result: string;
}

interface ToolUse {
  /** Empty: the task is to be answered without a tool. */
  readonly needs: readonly ToolNeed[];
  readonly calls: readonly CallRecord[];
  /** Calls or turns that could not be read as a call. */
  readonly malformed: number;
  /** null: the episode ended without an answer. */
  readonly answerRight: boolean | null;
  /** True for a call that works with the task's facts although it yields no needed result (a step of a longer sum). */
  readonly concerns?: (call: { readonly name: string; readonly arguments: JsonObject }, earlier: readonly CallRecord[]) => boolean;
}

/** Each is 0 or 1 for an episode, so that its mean over episodes is a rate. */
interface ToolUseMeasures {
  /** A needed tool was never called. */
  readonly toolMissed: number;
  /** A tool was called although none is needed. */
  readonly toolNeedless: number;
  /** A tool was called that does not exist or that a task with needs does not need. */
  readonly wrongTool: number;
  /** A call could not be read. */
  readonly malformedCall: number;
  /** A needed tool was called with arguments that were refused, failed, or do not lead to a needed result. */
  readonly wrongArguments: number;
  /** The result that is the answer was seen, and another answer was given. */
  readonly resultIgnored: number;
}

export function toolUseMeasures({ needs, calls, malformed, answerRight, concerns = () => false }: ToolUse): ToolUseMeasures {
  const attempted = calls.filter(({ outcome }) => outcome !== "not-run");
  const needed = (name: string): boolean => needs.some((need) => need.tool === name);
  const seen = (need: ToolNeed): boolean => attempted.some((record) => yields(record, need));
  const last = needs.at(-1);
  const wrongArguments = attempted.some((record, position) => {
    const mine = needs.filter((need) => need.tool === record.call.name);
    if (mine.length === 0 || mine.some((need) => yields(record, need))) return false;
    if (record.outcome === "timeout") return false;
    return record.outcome !== "ok" || !mine.every(seen) || !concerns(record.call, attempted.slice(0, position));
  });
  return {
    toolMissed: flag(needs.some((need) => !attempted.some(({ call }) => call.name === need.tool))),
    toolNeedless: flag(needs.length === 0 && calls.length > 0),
    wrongTool: flag(attempted.some(({ call, outcome }) => outcome === "unknown-tool" || (needs.length > 0 && !needed(call.name)))),
    malformedCall: flag(malformed > 0),
    wrongArguments: flag(wrongArguments),
    resultIgnored: flag(last !== undefined && seen(last) && answerRight === false),
  };
}

function yields({ call, outcome, resultText }: CallRecord, need: ToolNeed): boolean {
  return outcome === "ok" && call.name === need.tool && resultText === need.result;
}

function flag(value: boolean): number {
  return value ? 1 : 0;
}
