/** A calculator for the policy: + - * / and parentheses over numbers, evaluated by a small parser of our own, never by `eval`. */
import { z } from "zod";
import { defineTool } from "../loop/rollout/tools.ts";
import { calculate } from "./desk/arithmetic.ts";

export const calculator = defineTool({
  name: "calculator",
  description: "Works out a sum.",
  parameters: z.strictObject({ expression: z.string() }),
  run: ({ expression }) => calculate(expression),
});
