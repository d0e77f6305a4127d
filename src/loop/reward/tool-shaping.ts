/** How tools were used, as a shaping part of a reward: from -1 to 0, so that it can only take from what success earns. */
import { RewardError, expected, scored } from "../../errors.ts";
import type { Message, Reward, Task } from "../../types.ts";
import type { CallOutcome, CallRecord } from "../rollout/tools.ts";
import { toolUseMeasures } from "./tool-use.ts";

type Measure = keyof ReturnType<typeof toolUseMeasures>;

interface ToolShapingOptions {
  /** The calls that a task needs: which tool, and the result that right arguments give. */
  readonly needs: (task: Task) => Parameters<typeof toolUseMeasures>[0]["needs"];
  /** Which mistakes count, each with its share of the penalty; shares add up to at most 1. */
  readonly penalties: { readonly [M in Measure]?: number };
}

/** Scores minus the shares of the mistakes that were made. Use it in `weighted` as { shaping: true, bounds: [-1, 0] }. */
export function toolShaping({ needs, penalties }: ToolShapingOptions): Reward {
  const shares = Object.entries(penalties) as [Measure, number][];
  const total = shares.reduce((sum, [, share]) => sum + share, 0);
  if (!shares.every(([, share]) => share >= 0) || !(total > 0 && total <= 1 + 1e-9)) {
    throw new RewardError(expected("tool shaping: penalties", "shares of 0 or more that add up to at most 1", JSON.stringify(penalties)));
  }
  return ({ task, messages, turns }) => {
    const malformed = turns.filter((turn) => turn.parse === "malformedToolCall").length;
    const measures = toolUseMeasures({ needs: needs(task), calls: callsOf(messages), malformed, answerRight: null });
    const made = shares.filter(([name]) => measures[name] > 0);
    const score = -made.reduce((sum, [name, share]) => sum + share * measures[name], 0);
    return scored(made.length === 0 ? 0 : score, made.length === 0 ? "no mistake with tools" : made.map(([name]) => name).join(", "), {
      ...measures,
    });
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
