/** One episode of web pages: a session, the tools on it, and the grade of the page as it is at the end. */
import type { Page } from "playwright-core";
import { EnvError, expected, finite } from "../../errors.ts";
import { turnRewards } from "../../loop/reward/compose.ts";
import { defineEnv } from "../../loop/rollout/tool-env.ts";
import type { Episode, EnvStep, Message, Split, Task, TaskSource, Turn } from "../../types.ts";
import type { BrowserOptions, OpenPlace } from "../../compute/browser/chromium.ts";
import { openSession, type Session, type SessionLimits } from "../../compute/browser/session.ts";
import { browserTools } from "./tools.ts";
import type { WallOptions } from "../../compute/browser/wall.ts";

export interface BrowserEnvDefinition extends BrowserOptions {
  readonly name: string;
  readonly tasks: (split: Split) => TaskSource;
  /** Where an episode begins, and the origins it can reach. */
  readonly site: (task: Task) => WallOptions & { readonly url: string };
  /** Sets the page up; what it returns stands before the first observation. */
  readonly begin?: (page: Page, task: Task) => Promise<string>;
  /** Asked after every turn with calls; true ends the episode. Default: an answer without a call ends it. */
  readonly over?: (page: Page, task: Task) => Promise<boolean>;
  /** The score of the page as it is at the end. `answer` is null where the turns ran out or `over` said so. */
  readonly grade: (page: Page, task: Task, answer: string | null) => Promise<number>;
  readonly reference?: (task: Task) => readonly Message[];
  /** Assistant turns; the calls of the last one are run. Default 10. */
  readonly maxTurns?: number;
  readonly limits?: Partial<SessionLimits>;
  readonly showAddress?: boolean;
}

interface Opened {
  readonly session: Session;
  readonly inner: Episode;
  readonly seen: string;
}

const usual: SessionLimits = { observationChars: 4000, actionMs: 5000, loadMs: 15_000, settleMs: 100 };

export function startEpisode(
  task: Task,
  options: BrowserEnvDefinition & { readonly place: OpenPlace; readonly maxTurns: number },
): Episode {
  const { name, place, grade, over, maxTurns, showAddress = true } = options;
  const limits = { ...usual, ...options.limits };
  const call = { deadlineMs: 2 * (limits.actionMs + limits.loadMs), maxResultChars: 2 * limits.observationChars + 1000 };
  const closed = new AbortController();
  let opened: Promise<Opened> | undefined;
  let [turns, done, refusals] = [0, false, 0];

  const open = async (signal: AbortSignal): Promise<Opened> => {
    const { url, ...wall } = options.site(task);
    const session = await openSession(place, { ...wall, limits, showAddress }, AbortSignal.any([signal, closed.signal]));
    try {
      const answer = await session.page.goto(url);
      if (answer?.ok() !== true) throw new EnvError(expected(`environment ${name}: ${url}`, "a page", `HTTP ${answer?.status() ?? "204"}`));
      const said = (await options.begin?.(session.page, task)) ?? "";
      const seen = [said, await session.observe()].filter((text) => text !== "").join("\n\n");
      const tools = browserTools(session);
      const inner = defineEnv({ name, tasks: options.tasks, tools, reward: turnRewards(), limits: call, maxTurns: 1e9 });
      return { session, inner: inner.start(task), seen };
    } catch (cause) {
      await session[Symbol.asyncDispose]();
      throw cause;
    }
  };
  const answered = async (turn: Turn, signal: AbortSignal): Promise<EnvStep> => {
    const { session, inner } = await (opened ??= open(signal));
    const step = await inner.step(turn, signal);
    session.check();
    refusals = session.refusals();
    done = step.done || ++turns >= maxTurns || ((await over?.(session.page, task)) ?? false);
    if (!done) return step;
    const score = await grade(session.page, task, turn.parse === "answer" ? turn.message.content : null);
    session.check();
    return { ...step, done, reward: finite(score, `environment ${name}: score`) };
  };
  let measures: Readonly<Record<string, number>> = {};
  return {
    opening: async (signal) => (await (opened ??= open(signal))).seen,
    async step(turn, signal) {
      if (done) throw new EnvError(expected(`environment ${name}: step`, "no turn after the end", "another turn", "start a new episode"));
      const step = await answered(turn, signal);
      measures = (await opened!).inner.measures();
      return step;
    },
    measures: () => ({ ...measures, refusedRequests: refusals }),
    async [Symbol.asyncDispose]() {
      done = true;
      closed.abort(new EnvError(`environment ${name}: the episode was closed`));
      const held = await opened?.catch(() => undefined);
      await held?.inner[Symbol.asyncDispose]();
      await held?.session[Symbol.asyncDispose]();
    },
  };
}
