/**
 * How well an episode used its tools, beside the reward and never part of it. Taken from what was called and answered, and from what
 * the task needed where the environment says it.
 */
import type { JsonObject } from "./types.ts";
import type { CallRecord } from "./loop/rollout/tools.ts";

/** One call that a task needs. What is left out is not looked at: a need of `tool` alone is met by any call that succeeds. */
interface ToolNeed {
  readonly tool: string;
  /** All arguments of the right call. */
  readonly arguments?: JsonObject;
  /** The result text that only right arguments give. */
  readonly result?: string;
}

/** What a task asks of tools. */
export interface ToolExpectation {
  /** Empty: the task is to be answered without a tool. The last need yields the answer. */
  readonly needs: readonly ToolNeed[];
  /** True for a call that works with the task's facts although it meets no need (a step of a longer sum). */
  readonly concerns?: (call: { readonly name: string; readonly arguments: JsonObject }, earlier: readonly CallRecord[]) => boolean;
  /** Whether an answer is right. Left out, a result counts as used if the answer has a word of it that the question has not. */
  readonly right?: (answer: string) => boolean;
}

interface ToolUse {
  /** Left out: nobody knows what is needed, and what was missed or needless is not measured. */
  readonly expects?: ToolExpectation | undefined;
  readonly calls: readonly CallRecord[];
  /** Calls or turns that could not be read as a call. */
  readonly malformed: number;
  /** null: the episode ended without an answer. */
  readonly answer: string | null;
  /** What the model was asked. */
  readonly question: string;
}

/** The mistakes; each is 0 or 1 for an episode, so that its mean over episodes is a rate. */
export const TOOL_MISTAKES = ["missed", "needless", "wrongTool", "malformed", "wrongArguments", "resultIgnored"] as const;
export type ToolMistake = (typeof TOOL_MISTAKES)[number];

/**
 * missed: a needed tool was never called. needless: a tool was called although none is needed. wrongTool: a tool was called that does not
 * exist, or that a task with needs does not need. malformed: a call could not be read. wrongArguments: a call was refused or failed, or
 * its tool is needed and it met no need. resultIgnored: the result that is the answer was seen, and another answer given.
 */
export function toolUse(use: ToolUse): { readonly [M in ToolMistake]?: number } {
  const attempted = use.calls.filter(({ outcome }) => outcome !== "not-run");
  const { expects } = use;
  if (expects !== undefined) return withNeeds(use, attempted, expects);
  return {
    wrongTool: flag(attempted.some(({ outcome }) => outcome === "unknown-tool")),
    malformed: flag(use.malformed > 0),
    wrongArguments: flag(attempted.some(({ outcome }) => outcome === "bad-arguments" || outcome === "error")),
    resultIgnored: flag(leftOut(attempted.findLast(({ outcome }) => outcome === "ok"), use)),
  };
}

function withNeeds(
  use: ToolUse,
  attempted: readonly CallRecord[],
  { needs, concerns = () => false, right }: ToolExpectation,
): { readonly [M in ToolMistake]: number } {
  const needed = (name: string): boolean => needs.some((need) => need.tool === name);
  const meeting = (need: ToolNeed): CallRecord | undefined => attempted.findLast((record) => meets(record, need));
  const wrongArguments = attempted.some((record, position) => {
    const mine = needs.filter((need) => need.tool === record.call.name);
    if (mine.length === 0 || mine.some((need) => meets(record, need)) || record.outcome === "timeout") return false;
    return record.outcome !== "ok" || !mine.every(meeting) || !concerns(record.call, attempted.slice(0, position));
  });
  const last = needs.length === 0 ? undefined : meeting(needs.at(-1)!);
  const ignored = right === undefined ? leftOut(last, use) : last !== undefined && use.answer !== null && !right(use.answer);
  return {
    missed: flag(needs.some((need) => !attempted.some(({ call }) => call.name === need.tool))),
    needless: flag(needs.length === 0 && use.calls.length > 0),
    wrongTool: flag(attempted.some(({ call, outcome }) => outcome === "unknown-tool" || (needs.length > 0 && !needed(call.name)))),
    malformed: flag(use.malformed > 0),
    wrongArguments: flag(wrongArguments),
    resultIgnored: flag(ignored),
  };
}

function meets({ call, outcome, resultText }: CallRecord, need: ToolNeed): boolean {
  if (outcome !== "ok" || call.name !== need.tool) return false;
  if (need.result !== undefined && resultText !== need.result) return false;
  return need.arguments === undefined || sameArguments(call.arguments, need.arguments);
}

/** Equal as JSON, in whatever order the names stand. */
function sameArguments(a: JsonObject, b: JsonObject): boolean {
  const text = (value: unknown): string =>
    JSON.stringify(value, (_, inner: unknown) =>
      typeof inner === "object" && inner !== null && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([x], [y]) => (x < y ? -1 : 1)))
        : inner,
    );
  return text(a) === text(b);
}

/** The answer has no word or number of the result but those that the question had already. */
function leftOut(record: CallRecord | undefined, { answer, question }: ToolUse): boolean {
  if (record === undefined || answer === null) return false;
  const [asked, said] = [wordsOf(question), wordsOf(answer)];
  const own = [...wordsOf(record.resultText)].filter((word) => !asked.has(word));
  return own.length > 0 && !own.some((word) => said.has(word));
}

const wordsOf = (text: string): Set<string> => new Set(text.toLowerCase().match(/\d+(?:[.,]\d+)*|\p{L}+/gu) ?? []);

const flag = (value: boolean): number => (value ? 1 : 0);
