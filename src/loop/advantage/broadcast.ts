/** One advantage for a whole trajectory: every sampled token of every row gets it. */
import type { Credit, Trajectory } from "../../types.ts";

export function broadcastCredit(trajectory: Trajectory, advantage: number): Credit {
  const advantages = trajectory.rows.map((row) => {
    const sampled = row.spans.reduce((count, span) => count + (span.kind === "sampled" ? span.ids.length : 0), 0);
    return new Float32Array(sampled).fill(advantage);
  });
  return { trajectory, advantages };
}
