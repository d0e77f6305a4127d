/** Grading: a grader's fault, or its silence, is an infrastructure failure of that one rollout and never a score. */
import { RewardError, expected, finite, messageOf } from "../../errors.ts";
import type { Reward, Scored, Trajectory, Verdict } from "../../types.ts";

interface GradingOptions {
  readonly deadlineSeconds?: number;
  /** Aborted by the caller: grading rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Grades a trajectory. An episode that a fault or the clock ended is not the policy's doing and is not graded. */
export async function scoreTrajectory(reward: Reward, trajectory: Trajectory, options: GradingOptions = {}): Promise<Scored> {
  const verdict = await verdictOf(reward, trajectory, options);
  options.signal?.throwIfAborted();
  return { trajectory, verdict };
}

async function verdictOf(reward: Reward, trajectory: Trajectory, { deadlineSeconds = 60, signal }: GradingOptions): Promise<Verdict> {
  const { end, task, messages, turns } = trajectory;
  switch (end.type) {
    case "timeout":
      return { type: "infrastructure", reason: "the episode's deadline passed" };
    case "error":
      return { type: "infrastructure", reason: `${end.boundary}: ${end.message}` };
    case "done":
    case "length":
    case "turnLimit":
    case "toolBudget":
  }
  let stop: () => void = () => undefined;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Verdict>((resolve) => {
    stop = () => resolve({ type: "infrastructure", reason: `grader: no verdict within ${deadlineSeconds} s` });
    timer = setTimeout(stop, deadlineSeconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
  });
  try {
    return checked(await Promise.race([Promise.resolve(reward({ task, messages, turns })), late]));
  } catch (cause) {
    return { type: "infrastructure", reason: `grader: ${messageOf(cause)}` };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

/** A verdict as it is, or an infrastructure failure that says why it is none. */
export function soundVerdict(verdict: Verdict): Verdict {
  try {
    return checked(verdict);
  } catch (cause) {
    return { type: "infrastructure", reason: `grader: ${messageOf(cause)}` };
  }
}

/** What is no verdict, or has a score that is no finite number, is the grader's fault and not a 0. */
function checked(verdict: Verdict): Verdict {
  const given: unknown = verdict;
  const type = typeof given === "object" && given !== null && "type" in given ? given.type : undefined;
  if (type !== "scored" && type !== "unscorable" && type !== "infrastructure") {
    throw new RewardError(expected("reward", "a verdict", JSON.stringify(given) ?? "undefined", "return scored(score, explanation)"));
  }
  if (verdict.type === "scored") {
    finite(verdict.score, "reward score");
    for (const [name, value] of Object.entries(verdict.components)) finite(value, `reward component ${name}`);
  }
  return verdict;
}
