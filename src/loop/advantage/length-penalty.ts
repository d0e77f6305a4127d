/** DAPO's soft over-length penalty (arXiv:2503.14476): answers that come near the limit lose reward before the limit cuts them. */
import type { CreditContext, Scored } from "../../types.ts";

/**
 * 0 up to maxTokens - buffer, then falling in a line to -penalty at maxTokens, for the longest turn. `buffer` is a share of
 * maxTokens (DAPO: 4,096 of 20,480).
 */
export function overlongPenalty(
  { trajectory }: Scored,
  { limits }: CreditContext,
  { buffer, penalty }: { readonly buffer: number; readonly penalty: number },
): number {
  if (buffer === 0) return 0;
  const sampled = trajectory.rows.flatMap(({ spans }) => spans.filter((span) => span.kind === "sampled"));
  const longest = sampled.reduce((most, { ids }) => Math.max(most, ids.length), 0);
  const width = buffer * limits.maxTokens;
  const over = Math.min(longest - (limits.maxTokens - width), width);
  return over <= 0 ? 0 : (-over / width) * penalty;
}
