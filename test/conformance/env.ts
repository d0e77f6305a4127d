/** What every environment must satisfy; `envConformance` is called from the test file of each environment that answers questions. */
import { describe, expect, test } from "vitest";
import { isTruncated } from "../../src/loop/batch/rows.ts";
import { checkEnv, type CheckEnvOptions } from "../../src/loop/rollout/check-env.ts";
import { playEpisode } from "../../src/loop/rollout/episode.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import type { Env, Message, Split, Task } from "../../src/types.ts";
import { scriptedPolicy } from "../fakes/scripted-policy.ts";

const SPLITS: readonly Split[] = ["train", "test"];

/** `checkEnv`, and episodes that a limit cuts. */
export function envChecks(name: string, make: () => Env | Promise<Env>, options: CheckEnvOptions = {}): void {
  test(`${name} passes every check`, { timeout: 120_000 }, async () => {
    const checks = await checkEnv(make, options);
    expect(checks.filter(({ ok }) => !ok)).toEqual([]);
    expect(checks.length).toBe(8);
  });

  test(`${name}: a cut episode is truncated and not terminal`, { timeout: 60_000 }, async () => {
    const env = await make();
    const task = env.tasks("train").at(0);
    const address = { seed: 0, stage: "test", step: 0, sample: 0, repeat: 0 };
    const limits = { temperature: 1, maxTokens: 8, maxTurns: 1, deadlineSeconds: 30, address };
    const cut = await playEpisode(env, task, {
      ...limits,
      policy: scriptedPolicy(() => ({ ids: [20, 21, 22], finish: { type: "length" } }), { contextLength: 16_384 }),
    });
    expect([cut.end, isTruncated(cut)]).toEqual([{ type: "length" }, true]);
    expect(await env.reward(cut)).not.toMatchObject({ score: 1 });
    const babble = scriptedPolicy(() => "<tool_call>\nno\n</tool_call>", { contextLength: 16_384 });
    const wordy = await playEpisode(env, task, { ...limits, policy: babble });
    expect(isTruncated(wordy)).toBe(wordy.end.type === "turnLimit");
  });
}

export interface EnvConformance {
  readonly make: () => Env;
  /** Answers that follow the format and state nothing. */
  readonly skeletons: readonly string[];
  /** Names that a task is about; those of the two splits must be disjoint. */
  readonly entities: (task: Task) => readonly string[];
  readonly tasksPerSplit?: number;
}

export function envConformance(name: string, { make, skeletons, entities, tasksPerSplit = 200 }: EnvConformance): void {
  const env = make();
  const tasksOf = (split: Split): Task[] => {
    const source = env.tasks(split);
    return Array.from({ length: Math.min(tasksPerSplit, source.size) }, (_, i) => source.at(i));
  };
  const scoreOf = async (task: Task, script: readonly Message[]): Promise<number> => {
    const { verdict } = await playScripted(env, task, script);
    if (verdict.type !== "scored") throw new Error(`${task.id}: ${verdict.type}: ${verdict.reason}`);
    return verdict.score;
  };

  describe(`environment ${name}`, () => {
    envChecks(name, make);

    test.each(SPLITS)("the reference scores 1 on %s tasks and ends the episode", async (split) => {
      for (const task of tasksOf(split)) {
        const played = await playScripted(env, task, env.reference!(task));
        expect([task.id, played.done, played.verdict]).toMatchObject([task.id, true, { type: "scored", score: 1 }]);
      }
    });

    test.each(SPLITS)("nothing, a space, the question and the format skeleton score 0 on %s tasks", async (split) => {
      for (const task of tasksOf(split)) {
        const question = task.prompt.findLast((message) => message.role === "user")!.content;
        const whole = task.prompt.map((message) => message.content).join("\n");
        for (const content of ["", " ", question, whole, ...skeletons]) {
          expect([task.id, content, await scoreOf(task, [{ role: "assistant", content }])]).toEqual([task.id, content, 0]);
        }
      }
    });

    test("an episode that ends with a tool call scores 0", async () => {
      for (const task of tasksOf("train")) {
        const calling = env.reference!(task).filter((message) => message.toolCalls !== undefined);
        if (calling.length > 0) expect([task.id, await scoreOf(task, calling)]).toEqual([task.id, 0]);
      }
    });

    test("a task is a function of its index: same at every call, in any order, in another instance", () => {
      const other = make();
      for (const split of SPLITS) {
        const [once, again] = [env.tasks(split), other.tasks(split)];
        for (let i = Math.min(tasksPerSplit, once.size) - 1; i >= 0; i--) expect(again.at(i)).toEqual(once.at(i));
        expect(once.at(once.size - 1)).toEqual(again.at(once.size - 1));
        expect(() => once.at(once.size)).toThrow(/index/);
        expect(() => once.at(-1)).toThrow(/index/);
      }
    });

    test("a task is plain JSON", () => {
      for (const split of SPLITS) for (const task of tasksOf(split)) expect(JSON.parse(JSON.stringify(task))).toEqual(task);
    });

    test("train and test share no question, no id and no entity", () => {
      const all = (split: Split) => {
        const source = env.tasks(split);
        return Array.from({ length: source.size }, (_, i) => source.at(i));
      };
      const [train, held] = [all("train"), all("test")];
      for (const view of [(task: Task) => [task.id], (task: Task) => [JSON.stringify(task.prompt)], entities]) {
        const seen = new Set(train.flatMap(view));
        expect(held.flatMap(view).filter((value) => seen.has(value))).toEqual([]);
      }
    });

    test("episodes that run at once do not see each other", async () => {
      const tasks = tasksOf("train").slice(0, 24);
      const alone = [];
      for (const task of tasks) alone.push(await playScripted(env, task, env.reference!(task)));
      const together = await Promise.all([...tasks, ...tasks].map((task) => playScripted(env, task, env.reference!(task))));
      for (const [i, played] of together.entries()) {
        const expected = alone[i % tasks.length]!;
        expect(played.messages).toEqual(expected.messages);
        const timeless = ({ "seconds/tools": _, ...rest }: Readonly<Record<string, number>>) => rest;
        expect(timeless(played.measures)).toEqual(timeless(expected.measures));
      }
    });

    test("a closed or finished episode takes no further turn", async () => {
      const task = env.tasks("train").at(0);
      const episode = env.start(task);
      const turn = { row: -1, span: -1, message: { role: "assistant", content: "x" } as const, parse: "answer" as const, replies: [] };
      expect(await episode.step(turn, new AbortController().signal)).toMatchObject({ done: true });
      await expect(episode.step(turn, new AbortController().signal)).rejects.toThrow(/after the end/);
      await episode[Symbol.asyncDispose]();
    });
  });
}
