/**
 * "The repair": a small repository with a bug. The agent lists, reads and writes files, asks git, and runs the public tests; what grades
 * is tests that are in no file and no commit that it can reach, on the files as they are at the end.
 */
import { z } from "zod";
import { openSandbox } from "../compute/sandbox/open.ts";
import { whole } from "../config-fields.ts";
import { scored } from "../errors.ts";
import { generatedTasks } from "../loop/prompt/generated.ts";
import { codeVerifier } from "../loop/reward/verifiers/code.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import type { Env, JsonObject, Message, Split, Task } from "../types.ts";
import { readOptions } from "./options.ts";
import { countOf, drawRepair, type Repair } from "./repair/repository.ts";
import { repairTools } from "./repair/tools.ts";
import { filesAfter } from "./repair/workspace.ts";

const SYSTEM = "You repair programs with the given tools. When the bug is gone, say that you are done.";

const schema = z.strictObject({ seed: whole({ min: 0, max: 2 ** 32 - 1 }, 0, "the order of the tasks") });

export type RepairOptions = z.input<typeof schema> & {
  /** Default: one of its own, opened at once. */
  readonly sandbox?: Awaited<ReturnType<typeof openSandbox>>;
};

const repairOf = (task: Task): Repair => task.data as unknown as Repair;

/** The repair environment. Throws a SandboxError where nothing isolates. Reward: 1 if every hidden test passes, else 0. */
export async function repair({ sandbox: given, ...options }: RepairOptions = {}): Promise<Env> {
  const { seed } = readOptions("repair", schema, options as JsonObject);
  const sandbox = given ?? (await openSandbox());
  const grader = (language: Repair["language"]) => codeVerifier({ language, sandbox });
  const graders = { python: grader("python"), javascript: grader("javascript") } as const;
  return defineEnv({
    name: "repair",
    tasks: (split) => generatedTasks(`repair ${split}`, countOf(split), (index) => taskOf(split, index, seed)),
    tools: repairTools(sandbox),
    reward: ({ task, turns }) => {
      const made = repairOf(task);
      if (turns.at(-1)?.parse !== "answer") return scored(0, "the episode ended without saying that it is done");
      const { [made.module]: source } = filesAfter(made, turns);
      if (source === undefined || source.trim() === "") return scored(0, `${made.module} is empty`);
      const gold = { tests: [...made.hidden], expected: made.hidden.length };
      return graders[made.language].verify({ answer: fenced(source, made), gold });
    },
    reference: (task): readonly Message[] => {
      const { module, repaired } = repairOf(task);
      const call = { id: "call-1", name: "write_file", arguments: { path: module, content: repaired } };
      return [{ role: "assistant", content: "", toolCalls: [call] }, { role: "assistant", content: "Done." }];
    },
    maxTurns: 16,
    limits: { deadlineMs: 20_000, maxResultChars: 4_000 },
    measures: ({ task, calls }) => {
      const done = (name: string) => calls.filter(({ call, outcome }) => call.name === name && outcome === "ok");
      const touched = done("write_file").some(({ call }) => call.arguments["path"] === repairOf(task).publicTest);
      return { testRuns: done("run_tests").length, writes: done("write_file").length, testsTouched: touched ? 1 : 0 };
    },
  });
}

/** The source as the one block of an answer; a fence longer than any in it. */
function fenced(source: string, { language }: Repair): string {
  const fence = "`".repeat(Math.max(2, ...[...source.matchAll(/`+/g)].map(([run]) => run.length)) + 1);
  return `${fence}${language}\n${source}\n${fence}`;
}

function taskOf(split: Split, index: number, seed: number): Task {
  const made = drawRepair(split, index, seed);
  const asked = `${made.name} in ${made.module} does not do what README.md says. Find the bug and repair it.`;
  const prompt: Message[] = [{ role: "system", content: SYSTEM }, { role: "user", content: asked }];
  return { id: `repair-${split}-${index}`, prompt, data: made as unknown as JsonObject };
}
