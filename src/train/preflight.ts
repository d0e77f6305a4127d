/**
 * Before anything is trained: the reference solution must score 1; an empty answer, a blank and the question itself must not pay.
 * A reward that fails here would fail for hours unnoticed.
 */
import { ConfigError, EnvError, RewardError, expected } from "../errors.ts";
import type { ChatRenderer } from "../compute/text/renderer.ts";
import { playScripted } from "../loop/rollout/scripted.ts";
import type { Env, Message, Task, Verdict } from "../types.ts";

interface PreflightResult {
  /** Tasks whose reference solution was graded; 0 if the environment has none. */
  readonly references: number;
  readonly longestPrompt: number;
}

const said = (verdict: Verdict): string =>
  verdict.type === "scored" ? `score ${verdict.score} (${verdict.explanation})` : `${verdict.type}: ${verdict.reason}`;

/** Checks grader and prompts on the given tasks; throws one line that names the task and what it got. */
export async function preflight(
  env: Env,
  tasks: readonly Task[],
  { renderer, contextLength, maxTokens }: { renderer: ChatRenderer; contextLength: number; maxTokens: number },
): Promise<PreflightResult> {
  let longestPrompt = 0;
  for (const task of tasks) {
    if (env.reference !== undefined) await checkReference(env, task, env.reference(task));
    await checkEmptyAnswers(env, task);
    const length = renderer.start(
      task.prompt,
      env.tools.map(({ spec }) => spec),
    ).ids.length;
    longestPrompt = Math.max(longestPrompt, length);
    if (length + maxTokens > contextLength) {
      throw new ConfigError(
        expected(
          `task ${task.id}`,
          `a prompt of at most ${contextLength - maxTokens} tokens (context ${contextLength} less rollout.maxTokens ${maxTokens})`,
          String(length),
          "shorten it or lower rollout.maxTokens",
        ),
      );
    }
  }
  return { references: env.reference === undefined ? 0 : tasks.length, longestPrompt };
}

async function checkReference(env: Env, task: Task, solution: readonly Message[]): Promise<void> {
  if (solution.length === 0)
    throw new EnvError(expected(`preflight: reference of task ${task.id}`, "at least one assistant message", "none"));
  const { verdict } = await playScripted(env, task, solution);
  if (verdict.type === "scored" && verdict.score >= 1) return;
  throw new RewardError(
    expected(
      `preflight: reference solution of task ${task.id}`,
      "score 1",
      said(verdict),
      "the grader or the reference is wrong; nothing could be learned",
    ),
  );
}

/** Nothing, a blank and the question back: whoever pays for these pays for nothing. */
async function checkEmptyAnswers(env: Env, task: Task): Promise<void> {
  const question = task.prompt.at(-1)?.content ?? "";
  for (const [name, content] of [["an empty answer", ""], ["a blank answer", " "], ["the question as the answer", question]] as const) {
    const { verdict } = await playScripted(env, task, [{ role: "assistant", content }]);
    if (verdict.type === "scored" && verdict.score > 0) {
      throw new RewardError(expected(`preflight: ${name} to task ${task.id}`, "score 0", said(verdict), "the grader pays for nothing"));
    }
  }
}
