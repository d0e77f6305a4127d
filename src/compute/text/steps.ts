/** A solution in steps as one row: where each step ends, in tokens. */
import { ConfigError, expected } from "../../errors.ts";
import type { Message } from "../../types.ts";
import { encodeAnswer } from "./dialogue.ts";
import type { ChatRenderer } from "./renderer.ts";

interface Solution {
  readonly prompt: readonly Message[];
  readonly steps: readonly string[];
  /** Stands between steps and belongs to the step before it. */
  readonly separator: string;
}

/**
 * Encodes the steps as one assistant turn. `after[k]` is the position that follows the last token of step k (its separator included):
 * the state there has seen the step whole. Refused with `where`: no step, an empty one, two that end in the same token.
 */
export function encodeSteps(
  renderer: ChatRenderer,
  { prompt, steps, separator }: Solution,
  where: string,
): { readonly ids: Int32Array; readonly after: Int32Array } {
  const empty = steps.findIndex((step) => step.trim() === "");
  if (steps.length === 0 || empty >= 0)
    throw new ConfigError(expected(where, "steps with text", steps.length === 0 ? "none" : `step ${empty + 1} without`));
  const content = steps.join(separator);
  const [row] = encodeAnswer(renderer, { prompt, answer: [{ role: "assistant", content }] }, where);
  const { ids, trained } = row!;
  const { tokenizer } = renderer;
  const turn = [...ids.subarray(trained[0])];
  const text = tokenizer.decode(turn);
  const start = text.indexOf(content);
  if (start < 0) {
    const want = "a template that writes the steps as they are";
    throw new ConfigError(expected(where, want, JSON.stringify(text.slice(0, 60)), "trim the steps"));
  }
  const bytes = (part: string): number => Buffer.byteLength(part);
  let [end, token, seen] = [bytes(text.slice(0, start)), 0, 0];
  const after = steps.map((step, k) => {
    end += bytes(step) + (k < steps.length - 1 ? bytes(separator) : 0);
    while (seen < end) seen += tokenizer.bytesOf(turn[token++]!).length;
    return trained[0]! + token;
  });
  const shared = after.findIndex((position, k) => k > 0 && position === after[k - 1]);
  if (shared > 0)
    throw new ConfigError(expected(where, "steps that end in tokens of their own", `steps ${shared} and ${shared + 1} in one`));
  return { ids, after: Int32Array.from(after) };
}
