/** What an episode may use of its tools: calls, seconds and cost. Spent, it is told to the model once; then it ends the episode. */
import { expected, ToolError } from "../../errors.ts";

export interface BudgetLimits {
  /** Calls that are run, of the whole episode; refused ones do not count. */
  readonly toolCalls: number;
  /** Wall seconds in which tools run, of the whole episode. A run with this limit depends on the clock. */
  readonly toolSeconds: number;
  /** Sum of the costs of the calls, in the unit of `Tool.cost`. A call is run if anything is left, whatever it will cost. */
  readonly toolCost: number;
}

/** The ledger of one episode. */
export interface ToolBudget {
  /** Counts a call that is about to run, or says what is spent. */
  take(): string | null;
  millisecondsLeft(): number;
  use(used: { readonly seconds: number; readonly cost: number }): void;
  /** The text that the model was told, if it was. */
  told(): string | null;
  used(): { readonly seconds: number; readonly cost: number };
}

/** Throws `ToolError` for a limit that is not a positive number. */
export function checkBudget(limits: Partial<BudgetLimits>): void {
  for (const name of ["toolCalls", "toolSeconds", "toolCost"] as const) {
    const value = limits[name];
    if (value !== undefined && !(value > 0)) throw new ToolError(expected(`tool limit ${name}`, "a positive number", String(value)));
  }
}

export function openBudget(limits: Partial<BudgetLimits>): ToolBudget {
  const { toolCalls = Infinity, toolSeconds = Infinity, toolCost = Infinity } = limits;
  let [calls, seconds, cost] = [0, 0, 0];
  let told: string | null = null;
  const spent = (): string | null => {
    if (calls >= toolCalls) return `the ${toolCalls} tool calls of this task are used up`;
    if (seconds >= toolSeconds) return `the ${toolSeconds} seconds for tools of this task are used up`;
    return cost >= toolCost ? `the ${toolCost} that tools may cost in this task are used up` : null;
  };
  return {
    take() {
      const reason = spent();
      if (reason === null) calls++;
      else told = `error: not run: ${reason}; answer without tools`;
      return reason === null ? null : told;
    },
    millisecondsLeft: () => Math.max(0, toolSeconds - seconds) * 1000,
    use(used) {
      seconds += used.seconds;
      cost += used.cost;
    },
    told: () => told,
    used: () => ({ seconds, cost }),
  };
}
