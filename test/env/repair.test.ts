import { expect, test } from "vitest";
import { openSandbox } from "../../src/compute/sandbox/open.ts";
import { repair } from "../../src/env/repair.ts";
import type { Repair } from "../../src/env/repair/repository.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import type { Env, JsonObject, Message, Task } from "../../src/types.ts";

const sandbox = await openSandbox();
const env: Env = await repair({ sandbox });
const timeout = 120_000;

const done: Message = { role: "assistant", content: "Done." };
const call = (name: string, args: JsonObject): Message => ({
  role: "assistant", content: "", toolCalls: [{ id: `c-${name}`, name, arguments: args }],
});
const git = (...args: readonly string[]): Message => call("git", { args });
const write = (path: string, content: string): Message => call("write_file", { path, content });
const repairOf = (task: Task): Repair => task.data as unknown as Repair;
const find = (language: string): Task => {
  const source = env.tasks("train");
  return Array.from({ length: source.size }, (_, i) => source.at(i)).find((task) => repairOf(task).language === language)!;
};
const answers = async (task: Task, turns: readonly Message[]): Promise<string[]> =>
  (await playScripted(env, task, turns)).turns.flatMap(({ replies }) => replies.map(({ content }) => content));

test.each(["train", "test"] as const)("%s: every bug is one, and every repair is one", { timeout }, async (split) => {
  const source = env.tasks(split);
  const names = new Set<string>();
  for (let i = 0; i < source.size; i++) {
    const task = source.at(i);
    names.add(repairOf(task).name);
    const left = await playScripted(env, task, [done]);
    expect([task.id, left.verdict]).toMatchObject([task.id, { type: "scored", score: 0 }]);
    const right = await playScripted(env, task, env.reference!(task));
    expect([task.id, right.verdict]).toMatchObject([task.id, { type: "scored", score: 1 }]);
  }
  expect([...names].sort()).toEqual(split === "train" ? ["clamp", "parts", "total"] : ["highest", "initials"]);
});

test.each(["python", "javascript"])("%s: files, the public tests, and git", { timeout }, async (language) => {
  const task = find(language);
  const { module, repaired, files, publicTest } = repairOf(task);
  const reads = [call("list_files", {}), call("read_file", { path: module }), call("read_file", { path: "x" })];
  const told = await answers(task, reads);
  expect(told[0]).toBe(Object.keys(files).sort().join("\n"));
  expect(told.slice(1, 3)).toEqual([files[module], `error: no file x; files: ${Object.keys(files).join(", ")}`]);
  const after = await answers(task, [write(module, repaired), call("run_tests", {}), git("diff", "--stat"), git("log", "--oneline")]);
  expect(after[1]).toBe("public tests passed");
  expect(after[2]).toContain(module);
  expect(after[3]!.split("\n").map((line) => line.slice(8))).toEqual(["Add public tests", `Add ${repairOf(task).name}`, "Describe it"]);
  // A test that was rewritten is run as it was.
  const broken = await answers(task, [write(publicTest, "print('all fine')"), write(module, "broken("), call("run_tests", {})]);
  expect(broken[2]).toMatch(/\[exit code 1\]$/);
});

test("what grades cannot be reached: no later commit, no reflog, no remote, no hidden test", { timeout }, async () => {
  const task = find("python");
  const { repaired, hidden, files, publicTest } = repairOf(task);
  const told = await answers(task, [
    git("rev-list", "--all", "--count"),
    git("reflog", "--all"),
    git("remote", "-v"),
    git("log", "--all", "-p", "--format=%H %ad"),
    git("fsck", "--lost-found", "--no-progress"),
    git("count-objects", "-v"),
    git("-c", "alias.x=!ls -a / /box .. ; cat /proc/1/environ", "x"),
    write(".git/config", "x"),
    write("../up", "x"),
  ]);
  expect(told.slice(0, 3)).toEqual(["3", "[no output]", "[no output]"]);
  expect(told[4]).toBe("[no output]");
  // Three commits, three trees, three files.
  expect(told[5]).toMatch(/^(?:count: 9\n[^]*in-pack: 0|count: 0\n[^]*in-pack: 9)$/m);
  const secret = hidden.filter((line) => !files[publicTest]!.includes(line));
  expect(secret.length).toBe(hidden.length - 2);
  for (const text of told) for (const line of [...secret, repaired.trim().split("\n").at(-1)!.trim()]) expect(text).not.toContain(line);
  expect(told[7]).toMatch(/^error: path: expected a file of the project, got .git\/config/);
  expect(told[8]).toMatch(/^error: sandbox file: expected a relative path/);
});

test("what an agent says or writes beside the module earns nothing", { timeout }, async () => {
  const task = find("python");
  const { module, files, publicTest, repaired } = repairOf(task);
  const scoreOf = async (turns: readonly Message[]): Promise<unknown> => (await playScripted(env, task, turns)).verdict;
  expect(await scoreOf([write("solution2.py", repaired), done])).toMatchObject({ score: 0 });
  expect(await scoreOf([write(module, `import os\nos._exit(0)\n`), done])).toMatchObject({ score: 0 });
  expect(await scoreOf([{ role: "assistant", content: `\`\`\`python\n${repaired}\n\`\`\`` }])).toMatchObject({ score: 0 });
  // A fence in the source ends nothing; a repair that was not finished with a word is none.
  expect(await scoreOf([write(module, `"""\n\`\`\`\n"""\n${repaired}`), done])).toMatchObject({ score: 1 });
  expect(await scoreOf([write(module, repaired)])).toMatchObject({ score: 0 });
  const { measures } = await playScripted(env, task, [write(publicTest, files[publicTest]!), call("run_tests", {}), done]);
  expect(measures).toMatchObject({ testRuns: 1, writes: 1, testsTouched: 1 });
});
