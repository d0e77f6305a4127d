/**
 * Returns of single tokens: what is still earned from a token on. Only sampled tokens are steps, so a return passes over the prompt,
 * over tool output between two turns and from a row to the one before it, undiminished: it is never set back (verl sets it to 0 there).
 */
import type { Evidence, TokenValues, Trajectory } from "../../types.ts";

/** G_t = r_t + gamma G_{t+1}; `score` is earned at the last sampled token, `rewards` at each token (none: 0). Per row, like the credit. */
export function tokenReturns(
  { rows }: Trajectory,
  { score, gamma, rewards }: { readonly score: number; readonly gamma: number; readonly rewards?: TokenValues | undefined },
): Float32Array[] {
  const returns = rows.map(
    ({ spans }) => new Float32Array(spans.reduce((n, span) => n + (span.kind === "sampled" ? span.ids.length : 0), 0)),
  );
  let ahead = 0;
  let own = score;
  for (let row = rows.length - 1; row >= 0; row--) {
    for (let t = returns[row]!.length - 1; t >= 0; t--) {
      ahead = own + (rewards?.[row]?.[t] ?? 0) + gamma * ahead;
      own = 0;
      returns[row]![t] = ahead;
    }
  }
  return returns;
}

/** Log-probs of the sampled tokens under the weights about to be trained, or as they were sampled; per row. */
export function policyLogprobs({ rows }: Trajectory, { trainer }: Evidence): TokenValues {
  return trainer ?? rows.map(({ spans }) => Float32Array.from(spans.flatMap((span) => (span.kind === "sampled" ? span.logprobs : []))));
}
