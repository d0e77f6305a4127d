/**
 * Plays assistant messages that were written beforehand through an environment: for the preflight (the reference must score 1),
 * for supervised dialogues and for tests. No policy and no tokens, so the turns point at no row.
 */
import { messageOf } from "../../errors.ts";
import type { Env, Message, Task, Turn, Verdict } from "../../types.ts";

interface PlayedEpisode {
  /** Prompt, assistant turns and replies, in order. */
  readonly messages: readonly Message[];
  readonly turns: readonly Turn[];
  readonly done: boolean;
  readonly verdict: Verdict;
  readonly measures: Readonly<Record<string, number>>;
}

export interface ScriptedTurn {
  readonly message: Message;
  readonly parse: Turn["parse"];
}

/** Plays until the environment says done or the script ends, then grades. A turn without `parse` is read from its message. */
export async function playScripted(env: Env, task: Task, script: readonly (Message | ScriptedTurn)[]): Promise<PlayedEpisode> {
  await using episode = env.start(task);
  const messages: Message[] = [...task.prompt];
  const turns: Turn[] = [];
  const { signal } = new AbortController();
  let done = false;
  for (const entry of script) {
    if (done) break;
    const turn: Turn = { row: -1, span: -1, ...read(entry), replies: [] };
    const step = await episode.step(turn, signal);
    turns.push({ ...turn, replies: step.messages });
    messages.push(turn.message, ...step.messages);
    done = step.done;
    if (step.limit !== undefined) break;
  }
  const measures = episode.measures();
  return { messages, turns, done, verdict: await graded(env, { task, messages, turns }), measures };
}

/** A grader that throws has not graded. */
async function graded(env: Env, episode: Parameters<Env["reward"]>[0]): Promise<Verdict> {
  try {
    return await env.reward(episode);
  } catch (cause) {
    return { type: "infrastructure", reason: `grader: ${messageOf(cause)}` };
  }
}

function read(entry: Message | ScriptedTurn): ScriptedTurn {
  if ("message" in entry) return entry;
  return { message: entry, parse: (entry.toolCalls?.length ?? 0) > 0 ? "toolCalls" : "answer" };
}
