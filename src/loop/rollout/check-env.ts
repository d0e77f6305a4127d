/**
 * What every environment must do, checked by playing it: its reference is right, a policy that knows nothing is not, episodes share
 * nothing, and nothing is left when they are closed. For authors; the preflight of a run checks less, and in less time.
 */
import { readdir, readFile, readlink } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { messageOf } from "../../errors.ts";
import { rng } from "../../random.ts";
import type { Env, Message, Split, Task, Verdict } from "../../types.ts";
import { randomSpeaker } from "./random-speaker.ts";
import { playScripted, type PlayedEpisode, type ScriptedTurn, type Speaker } from "./scripted.ts";

const checks = ["reference", "empty policy", "random policy", "same twice", "in parallel", "cut turn", "tasks", "nothing is left"] as const;

export interface EnvCheck {
  readonly name: (typeof checks)[number];
  readonly ok: boolean;
  /** What was seen; where it is not ok, the first thing that was wrong. */
  readonly detail: string;
}

export interface CheckEnvOptions {
  readonly splits?: readonly Split[];
  /** Tasks that are played, of each split; default 8. */
  readonly tasks?: number;
  /** Episodes at once; default 16. */
  readonly parallel?: number;
  /** Turns after which a policy that says nothing right is stopped; default 64. */
  readonly turns?: number;
  /** Largest share of episodes that answers at random may win; default 0.25. */
  readonly randomAtMost?: number;
}

/** Runs every check and says how each went; `make` makes a new environment. An environment without `reference` fails "reference". */
export async function checkEnv(make: () => Env | Promise<Env>, options: CheckEnvOptions = {}): Promise<readonly EnvCheck[]> {
  const { splits = ["train", "test"], tasks: count = 8, parallel = 16, turns = 64, randomAtMost = 0.25 } = options;
  const env = await make();
  const tasks = splits.flatMap((split) => firstTasks(env, split, count));
  const place: Place = { env, make, tasks, splits, count, parallel, turns, randomAtMost };
  const bodies: { readonly [Name in EnvCheck["name"]]: (place: Place) => Promise<string> } = {
    reference,
    "empty policy": emptyPolicy,
    "random policy": randomPolicy,
    "same twice": sameTwice,
    "in parallel": inParallel,
    "cut turn": cutTurn,
    tasks: tasksAreData,
    "nothing is left": nothingLeft,
  };
  const found: EnvCheck[] = [];
  for (const name of checks) {
    try {
      found.push({ name, ok: true, detail: await bodies[name](place) });
    } catch (cause) {
      found.push({ name, ok: false, detail: messageOf(cause) });
    }
  }
  return found;
}

interface Place extends Required<Omit<CheckEnvOptions, "tasks">> {
  readonly env: Env;
  readonly make: () => Env | Promise<Env>;
  readonly tasks: readonly Task[];
  readonly count: number;
}

function firstTasks(env: Env, split: Split, count: number): Task[] {
  const source = env.tasks(split);
  return Array.from({ length: Math.min(count, source.size) }, (_, i) => source.at(i));
}

const told = (verdict: Verdict): string => (verdict.type === "scored" ? `score ${verdict.score}` : `${verdict.type}: ${verdict.reason}`);
const won = ({ verdict }: PlayedEpisode): boolean => verdict.type === "scored" && verdict.score >= 1;
const empty: Message = { role: "assistant", content: "" };

function referenceOf(env: Env, task: Task): readonly Message[] {
  if (env.reference === undefined) throw new Error(`${env.name}: no reference; give one, or nothing shows that the task can be done`);
  return env.reference(task);
}

/** A policy that stops after so many turns. */
const atMost = (turns: number, say: Speaker): Speaker => (seen, turn) => (turn.index < turns ? say(seen, turn) : undefined);

async function reference({ env, tasks }: Place): Promise<string> {
  for (const task of tasks) {
    const played = await playScripted(env, task, referenceOf(env, task));
    if (!won(played)) throw new Error(`task ${task.id}: expected score 1 for the reference, got ${told(played.verdict)}`);
    if (!played.done) throw new Error(`task ${task.id}: expected the reference to end the episode, got an episode that goes on`);
  }
  return `${tasks.length} tasks, each scored 1 and done`;
}

async function emptyPolicy({ env, tasks, turns }: Place): Promise<string> {
  for (const task of tasks) {
    for (const script of [[], [empty], atMost(turns, () => empty)]) {
      const played = await playScripted(env, task, script);
      if (won(played)) throw new Error(`task ${task.id}: expected no score of 1 for saying nothing, got ${told(played.verdict)}`);
    }
  }
  return `${tasks.length} tasks, none won`;
}

async function randomPolicy({ env, tasks, turns, randomAtMost }: Place): Promise<string> {
  const played = await Promise.all(tasks.map((task, i) => playScripted(env, task, atMost(turns, randomSpeaker(env, i)))));
  const wins = played.filter(won).length;
  const share = `${wins} of ${tasks.length} episodes`;
  if (wins > randomAtMost * tasks.length) throw new Error(`expected at most ${randomAtMost} of them won at random, got ${share}`);
  return `won ${share}`;
}

/** What two plays of one script must have in common. */
function comparable({ messages, verdict, measures, done }: PlayedEpisode): string {
  const plain = messages.map(({ role, content, name }) => [role, content, name ?? null]);
  // Time passes otherwise each time.
  const counted = Object.entries(measures).filter(([name]) => !name.startsWith("seconds/"));
  return JSON.stringify([plain, verdict, counted, done]);
}

/** Reference and random turns by turns, so that both right and wrong ways are compared. */
function scriptOf(env: Env, task: Task, { i, turns }: { readonly i: number; readonly turns: number }): readonly Message[] | Speaker {
  return i % 2 === 0 ? referenceOf(env, task) : atMost(turns, randomSpeaker(env, i));
}

async function sameTwice({ env, make, tasks, turns }: Place): Promise<string> {
  const other = await make();
  for (const [i, task] of [...tasks, ...tasks].entries()) {
    const at = i + (i >= tasks.length ? 1 : 0);
    const [once, again] = [
      await playScripted(env, task, scriptOf(env, task, { i: at, turns })),
      await playScripted(other, task, scriptOf(other, task, { i: at, turns })),
    ];
    if (comparable(once) !== comparable(again)) throw new Error(difference(task, comparable(once), comparable(again)));
  }
  return `${2 * tasks.length} episodes, each the same again in another instance`;
}

function difference({ id }: Task, before: string, now: string): string {
  const at = [...before].findIndex((character, i) => character !== now[i]);
  const show = (text: string): string => text.slice(Math.max(0, at - 20), at + 60);
  return `task ${id}: expected the same again, got ${show(now)} in place of ${show(before)}`;
}

async function inParallel({ env, tasks, parallel, turns }: Place): Promise<string> {
  const jobs = Array.from({ length: parallel }, (_, i) => ({ i, task: tasks[Math.floor(i / 2) % tasks.length]! }));
  const play = ({ i, task }: (typeof jobs)[number]): Promise<PlayedEpisode> => playScripted(env, task, scriptOf(env, task, { i, turns }));
  const alone: string[] = [];
  for (const job of jobs) alone.push(comparable(await play(job)));
  const together = (await Promise.all(jobs.map(play))).map(comparable);
  const bad = alone.findIndex((text, i) => text !== together[i]);
  if (bad >= 0) throw new Error(difference(jobs[bad]!.task, alone[bad]!, together[bad]!));
  return `${parallel} episodes at once, as they are alone`;
}

/** A turn that the token limit cut does no work: no call in it is run, and no answer in it counts. */
async function cutTurn({ env, tasks }: Place): Promise<string> {
  for (const task of tasks) {
    const turns = referenceOf(env, task);
    const last = turns.length - 1;
    const script = turns.map((message, i): ScriptedTurn | Message => (i < last ? message : { message, parse: "truncated" }));
    const played = await playScripted(env, task, script);
    if (won(played)) throw new Error(`task ${task.id}: expected no score of 1 for a cut last turn, got ${told(played.verdict)}`);
    const { signal } = new AbortController();
    await using episode = env.start(task);
    await episode.step({ row: -1, span: -1, message: turns[0]!, parse: "truncated", replies: [] }, signal);
  }
  return `${tasks.length} tasks, none won by a turn that was cut`;
}

async function tasksAreData({ env, make, splits, count }: Place): Promise<string> {
  const other = await make();
  for (const split of splits) {
    const once = firstTasks(env, split, count);
    for (const [i, task] of [...once.entries()].reverse()) {
      const text = JSON.stringify(task);
      const same = text === JSON.stringify(other.tasks(split).at(i));
      if (!same) throw new Error(`${split} task ${i}: expected the same in every instance, got another`);
      if (JSON.stringify(JSON.parse(text)) !== text) throw new Error(`${split} task ${i}: expected plain JSON, got something else`);
    }
  }
  const ids = new Set(splits.flatMap((split) => firstTasks(env, split, count).map(({ id }) => id)));
  const total = splits.reduce((sum, split) => sum + Math.min(count, env.tasks(split).size), 0);
  if (ids.size !== total) throw new Error(`expected an id for each task, got ${ids.size} for ${total} tasks`);
  return `${total} tasks, plain JSON, each the same in every instance`;
}

/** After a first episode, which may open what all share, another sixteen leave no resource, child process or open file behind. */
async function nothingLeft({ env, tasks, parallel, turns }: Place): Promise<string> {
  const play = (i: number): Promise<unknown> => {
    const task = tasks[Number(rng(i, "left").lo % tasks.length)]!;
    return playScripted(env, task, scriptOf(env, task, { i, turns }));
  };
  await Promise.all(Array.from({ length: parallel }, (_, i) => play(i)));
  const before = await held();
  await Promise.all(Array.from({ length: parallel }, (_, i) => play(i)));
  await using closedEarly = env.start(tasks[0]!);
  await closedEarly[Symbol.asyncDispose]();
  let more: string[] = [];
  for (let tries = 0; tries < 40; tries++) {
    const now = await held();
    more = [...now.keys()].filter((name) => now.get(name)! > (before.get(name) ?? 0));
    if (more.length === 0) return `${parallel} episodes closed, nothing left`;
    await pause(50);
  }
  throw new Error(`expected nothing to be left, got ${more.map((name) => `one more ${name}`).join(", ")}`);
}

/** Counts of what this process holds: timers and handles, children, open files (where the system tells). */
async function held(): Promise<ReadonlyMap<string, number>> {
  const handles = process.getActiveResourcesInfo().filter((name) => name !== "Immediate" && !name.startsWith("FSReq"));
  const names = [...handles, ...(await children()), ...(await openFiles())];
  return new Map([...new Set(names)].map((name) => [name, names.filter((each) => each === name).length]));
}

async function children(): Promise<string[]> {
  const threads = await readdir("/proc/self/task").catch(() => []);
  const lists = await Promise.all(threads.map((thread) => readFile(`/proc/self/task/${thread}/children`, "utf8").catch(() => "")));
  return lists.flatMap((list) => (list.match(/\d+/g) ?? []).map(() => "child process"));
}

async function openFiles(): Promise<string[]> {
  const numbers = await readdir("/proc/self/fd").catch(() => []);
  const targets = await Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => "")));
  return targets.filter((target) => target.startsWith("/") && !target.startsWith("/proc/")).map((target) => `open file ${target}`);
}
