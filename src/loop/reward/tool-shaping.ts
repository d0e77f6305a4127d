/** How tools were used, as a shaping part of a reward: from -1 to 0, so that it can only take from what success earns. */
import { RewardError, expected, scored } from "../../errors.ts";
import { TOOL_MISTAKES, toolUse, type ToolExpectation, type ToolMistake } from "../../tool-use.ts";
import type { Message, Reward, Task } from "../../types.ts";
import type { CallOutcome, CallRecord } from "../rollout/tools.ts";

interface ToolShapingOptions {
  /** What a task asks of tools; left out, `missed` and `needless` cannot be penalties. */
  readonly expects?: (task: Task) => ToolExpectation;
  /** Which mistakes count, each with its share of the penalty; shares add up to at most 1. */
  readonly penalties: { readonly [M in ToolMistake]?: number };
}

/** Scores minus the shares of the mistakes that were made. Use it in `weighted` as { shaping: true, bounds: [-1, 0] }. */
export function toolShaping({ expects, penalties }: ToolShapingOptions): Reward {
  const shares = Object.entries(penalties) as [ToolMistake, number][];
  const total = shares.reduce((sum, [, share]) => sum + share, 0);
  if (!shares.every(([, share]) => share >= 0) || !(total > 0 && total <= 1 + 1e-9)) {
    throw new RewardError(expected("tool shaping: penalties", "shares of 0 or more that add up to at most 1", JSON.stringify(penalties)));
  }
  const known = TOOL_MISTAKES.filter((name) => expects !== undefined || (name !== "missed" && name !== "needless"));
  const stray = shares.find(([name]) => !known.includes(name));
  if (stray !== undefined) {
    const remedy = TOOL_MISTAKES.includes(stray[0]) ? "give expects, which says what a task needs" : undefined;
    throw new RewardError(expected("tool shaping: penalties", known.join(", "), stray[0], remedy));
  }
  return ({ task, messages, turns }) => {
    const final = turns.at(-1);
    const measures = toolUse({
      expects: expects?.(task),
      calls: callsOf(messages),
      malformed: turns.filter((turn) => turn.parse === "malformedToolCall").length,
      answer: final?.parse === "answer" ? final.message.content : null,
      question: task.prompt.map(({ content }) => content).join("\n"),
    });
    const made = shares.filter(([name]) => measures[name] === 1);
    const taken = made.reduce((sum, [, share]) => sum + share, 0);
    // Shares such as ten times 0.1 can add up to a little more than 1.
    return scored(taken === 0 ? 0 : -Math.min(1, taken), made.map(([name]) => name).join(", ") || "no mistake with tools", { ...measures });
  };
}

/** Calls with their results, from the conversation; an outcome is read off the text that tools answer failures with. */
function callsOf(messages: readonly Message[]): CallRecord[] {
  const results = new Map(
    messages.flatMap((message) => (message.role === "tool" ? [[message.toolCallId ?? "", message.content] as const] : [])),
  );
  return messages.flatMap(({ toolCalls = [] }) =>
    toolCalls.map((call): CallRecord => {
      const resultText = results.get(call.id) ?? "error: not run";
      return { call, outcome: outcomeOf(resultText), resultText, ms: 0 };
    }),
  );
}

function outcomeOf(text: string): CallOutcome {
  if (!text.startsWith("error:")) return "ok";
  if (text.startsWith("error: not run")) return "not-run";
  if (text.startsWith("error: no tool ")) return "unknown-tool";
  return / took longer than \d+ ms/.test(text) ? "timeout" : "error";
}
