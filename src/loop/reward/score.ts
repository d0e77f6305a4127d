/** Grading: a grader's fault, or its silence, is an infrastructure failure of that one rollout and never a score. */
import { finite, messageOf } from "../../errors.ts";
import type { Reward, Scored, Trajectory, Verdict } from "../../types.ts";

/** Grades a trajectory. An episode that a fault or the clock ended is not the policy's doing and is not graded. */
export async function scoreTrajectory(
  reward: Reward,
  trajectory: Trajectory,
  { deadlineSeconds = 60 }: { readonly deadlineSeconds?: number } = {},
): Promise<Scored> {
  return { trajectory, verdict: await verdictOf(reward, trajectory, deadlineSeconds) };
}

async function verdictOf(reward: Reward, trajectory: Trajectory, deadlineSeconds: number): Promise<Verdict> {
  const { end, task, messages, turns } = trajectory;
  switch (end.type) {
    case "timeout":
      return { type: "infrastructure", reason: "the episode's deadline passed" };
    case "error":
      return { type: "infrastructure", reason: `${end.boundary}: ${end.message}` };
    case "done":
    case "length":
    case "turnLimit":
  }
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Verdict>((resolve) => {
    timer = setTimeout(
      () => resolve({ type: "infrastructure", reason: `grader: no verdict within ${deadlineSeconds} s` }),
      deadlineSeconds * 1000,
    );
  });
  try {
    return checked(await Promise.race([Promise.resolve(reward({ task, messages, turns })), late]));
  } catch (cause) {
    return { type: "infrastructure", reason: `grader: ${messageOf(cause)}` };
  } finally {
    clearTimeout(timer);
  }
}

/** A score that is no finite number is the grader's fault. */
function checked(verdict: Verdict): Verdict {
  if (verdict.type === "scored") {
    finite(verdict.score, "reward score");
    for (const [name, value] of Object.entries(verdict.components)) finite(value, `reward component ${name}`);
  }
  return verdict;
}
