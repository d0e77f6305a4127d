/** One reward for a whole episode, compared with others, and given to every token of it. */
import type { Credit, Group, Scored } from "../../types.ts";
import { broadcastCredit } from "./broadcast.ts";

/** [G] of one group, [P][G] of a step; null for a member that was not scored, which enters no mean. */
export type PerMember = readonly (number | null)[];

/** The rewards of each group's members: their scores, changed by `adjust` (a penalty, a KL term). */
export function rewardsOf(groups: readonly Group[], adjust: (score: number, member: Scored) => number = (score) => score): PerMember[] {
  return groups.map(({ members }) =>
    members.map((member) => (member.verdict.type === "scored" ? adjust(member.verdict.score, member) : null)),
  );
}

/** Every token of a member gets the member's number; no credit where that is null. */
export function broadcastGroups(groups: readonly Group[], advantages_P_G: readonly PerMember[]): (Credit | null)[][] {
  return groups.map(({ members }, p) =>
    members.map(({ trajectory }, i) => {
      const advantage = advantages_P_G[p]![i]!;
      return advantage === null ? null : broadcastCredit(trajectory, advantage);
    }),
  );
}

/** How many tokens the policy sampled in an episode. */
export function sampledLength({ trajectory: { rows } }: Scored): number {
  return rows.reduce((total, { spans }) => total + spans.reduce((n, span) => n + (span.kind === "sampled" ? span.ids.length : 0), 0), 0);
}
