/**
 * Before anything is trained: the reference solution must score 1; an empty answer, a blank and the question itself must not pay.
 * A reward that fails here would fail for hours unnoticed.
 */
import { setImmediate } from "node:timers/promises";
import { hopelessBytes } from "../compute/text/dialogue.ts";
import { ConfigError, EnvError, RewardError, boundary, expected } from "../errors.ts";
import type { ChatRenderer } from "../compute/text/renderer.ts";
import { soundVerdict } from "../loop/reward/score.ts";
import { playScripted } from "../loop/rollout/scripted.ts";
import type { Env, Message, Task, TaskSource, Verdict } from "../types.ts";
import { checkMaxTokens } from "./plan.ts";

interface PreflightOptions {
  readonly renderer: ChatRenderer;
  readonly contextLength: number;
  readonly maxTokens: number;
  /** False: prompts are measured, and the grader is not asked. */
  readonly graded?: boolean;
  readonly signal?: AbortSignal;
}

/** Tasks whose grader is tried, and whose prompt is measured: the first ones, so many that nobody waits for long. */
const most = { graded: 16, measured: 1000 };

const said = (verdict: Verdict): string =>
  verdict.type === "scored" ? `score ${verdict.score} (${verdict.explanation})` : `${verdict.type}: ${verdict.reason}`;

/** Checks grader and prompts of an environment's training tasks; throws one line that names the task and what it got. */
export async function preflight(env: Env, source: TaskSource, { graded = true, signal, ...limits }: PreflightOptions): Promise<void> {
  checkMaxTokens(limits.maxTokens, limits.contextLength);
  const first = (count: number): Task[] => Array.from({ length: Math.min(count, source.size) }, (_, i) => source.at(i));
  let began = performance.now();
  for (const task of first(most.measured)) {
    if (performance.now() - began > 100) {
      await setImmediate();
      signal?.throwIfAborted();
      began = performance.now();
    }
    checkLength(env, task, limits);
  }
  for (const task of graded ? first(most.graded) : []) {
    signal?.throwIfAborted();
    await boundary(EnvError, `preflight: task ${task.id}`, async () => {
      if (env.reference !== undefined) await checkReference(env, task, env.reference(task));
      await checkEmptyAnswers(env, task);
    });
  }
}

/** A prompt is never cut: one that leaves no room for a turn is refused by its id. */
function checkLength(env: Env, task: Task, { renderer, contextLength, maxTokens }: PreflightOptions): void {
  const room = contextLength - maxTokens;
  const bytes = hopelessBytes(renderer, task.prompt, room);
  const length = bytes ?? renderer.start(task.prompt, env.tools.map(({ spec }) => spec)).ids.length;
  if (bytes === null && length <= room) return;
  const want = `a prompt of at most ${room} tokens (context ${contextLength} less rollout.maxTokens ${maxTokens})`;
  const got = bytes === null ? String(length) : `${bytes} bytes of text`;
  throw new ConfigError(expected(`task ${task.id}`, want, got, "leave the task out or lower rollout.maxTokens"));
}

async function checkReference(env: Env, task: Task, solution: readonly Message[]): Promise<void> {
  if (solution.length === 0)
    throw new EnvError(expected(`preflight: reference of task ${task.id}`, "at least one assistant message", "none"));
  const verdict = soundVerdict((await playScripted(env, task, solution)).verdict);
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

/** Nothing, a blank and the question back: whoever pays for these pays for nothing; and who grades none of them grades nothing. */
async function checkEmptyAnswers(env: Env, task: Task): Promise<void> {
  const question = task.prompt.at(-1)?.content ?? "";
  const answers = [["an empty answer", ""], ["a blank answer", " "], ["the question as the answer", question]] as const;
  const verdicts: Verdict[] = [];
  for (const [name, content] of answers) {
    const verdict = soundVerdict((await playScripted(env, task, [{ role: "assistant", content }])).verdict);
    verdicts.push(verdict);
    if (verdict.type === "scored" && verdict.score > 0) {
      throw new RewardError(expected(`preflight: ${name} to task ${task.id}`, "score 0", said(verdict), "the grader pays for nothing"));
    }
  }
  if (verdicts.some(({ type }) => type === "scored")) return;
  const remedy = "the grader cannot grade this task";
  throw new RewardError(expected(`preflight: an empty answer to task ${task.id}`, "score 0", said(verdicts[0]!), remedy));
}
