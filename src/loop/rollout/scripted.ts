/**
 * Plays assistant messages that were written beforehand, or that a function says, through an environment: for the preflight (the
 * reference must score 1), for supervised dialogues, for people and for tests. No policy and no tokens, so the turns point at no row.
 */
import { messageOf } from "../../errors.ts";
import type { Env, EnvStep, Message, Task, Turn, Verdict } from "../../types.ts";

export interface PlayedEpisode {
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

/** Says the next turn from what the speaker sees; undefined stops. */
export type Speaker = (
  seen: readonly Message[],
  turn: { readonly index: number; readonly agent?: string },
) => Message | ScriptedTurn | undefined | Promise<Message | ScriptedTurn | undefined>;

/** Plays until the environment says done or the script ends, then grades. A turn without `parse` is read from its message. */
export async function playScripted(
  env: Env,
  task: Task,
  script: readonly (Message | ScriptedTurn)[] | Speaker,
  { onStep }: { readonly onStep?: (step: EnvStep) => void } = {},
): Promise<PlayedEpisode> {
  const say: Speaker = typeof script === "function" ? script : (_seen, { index }) => script[index];
  await using episode = env.start(task);
  const { signal } = new AbortController();
  const prompt = withOpening(task.prompt, (await episode.opening?.(signal)) ?? "");
  const messages: Message[] = [...prompt];
  let seen: readonly Message[] = prompt;
  let speaker: { readonly agent?: string; readonly trained?: boolean } = env.agent === undefined ? {} : { agent: env.agent };
  const turns: Turn[] = [];
  let done = false;
  for (let index = 0; !done; index++) {
    const { agent, trained = true } = speaker;
    const by = agent === undefined ? {} : { agent };
    const entry = await say(seen, { index, ...by });
    if (entry === undefined) break;
    const turn: Turn = { row: -1, span: -1, ...read(entry), replies: [], ...by };
    const step = await episode.step(turn, signal);
    addTurn(turns, { turn, step, trained });
    messages.push(turn.message, ...step.messages);
    seen = step.next?.prompt ?? [...seen, turn.message, ...step.messages];
    speaker = step.next ?? speaker;
    done = step.done;
    onStep?.(step);
    if (step.limit !== undefined) break;
  }
  const measures = episode.measures();
  return { messages, turns, done, verdict: await graded(env, { task, messages, turns }), measures };
}

interface TurnTaken {
  readonly turn: Turn;
  readonly step: EnvStep;
  readonly trained: boolean;
}

/** Records a turn with its replies; one of an agent that is not trained is a reply to the turn before it. */
export function addTurn(turns: Turn[], { turn, step, trained }: TurnTaken): void {
  const reward = step.reward === undefined ? {} : { reward: step.reward };
  if (trained) return void turns.push({ ...turn, replies: step.messages, ...reward });
  const before = turns.pop();
  if (before !== undefined) turns.push({ ...before, replies: [...before.replies, turn.message, ...step.messages], ...reward });
}

/** The prompt with what there is to see at its end: some templates refuse two messages of one role in a row. */
export function withOpening(prompt: readonly Message[], opening: string): Message[] {
  const last = prompt.at(-1);
  if (opening === "" || last === undefined) return [...prompt];
  return [...prompt.slice(0, -1), { ...last, content: `${last.content}\n\n${opening}` }];
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
