/** The task, the gate and the stages of the reasoning recipe. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { chain, fitsForm, shareOfTrueSteps, worked } from "../../recipes/r1/chain.ts";
import { readOutcome, stageTable } from "../../recipes/r1/outcome.ts";
import { larger } from "../../recipes/r1/settings.ts";
import { rightAnswers, runStages, stages } from "../../recipes/r1/stages.ts";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { playScripted, type ScriptedTurn } from "../../src/loop/rollout/scripted.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { calculate } from "../../src/env/desk/arithmetic.ts";
import type { Message, Turn } from "../../src/types.ts";
import { memberOf, trajectoryOf } from "../fakes/credit.ts";
import { temporaryFolder } from "../fakes/model-folders.ts";

const options = { terms: [4, 6], sizes: { train: 20_000, test: 2_000 } } as const;
const thinking = chain({ reasoning: true, ...options });
const silent = chain({ reasoning: false, ...options });
const said = (content: string, reasoning?: string, parse: Turn["parse"] = "answer"): ScriptedTurn => ({
  message: { role: "assistant", content, ...(reasoning === undefined ? {} : { reasoning }) },
  parse,
});

test("a chain's answer is its value, its steps are true, and every result on the way is a day of the week", () => {
  const lengths = new Set<number>();
  for (let i = 0; i < 500; i++) {
    const { prompt, data } = thinking.tasks("train").at(i);
    const expression = /^Days go from 0 to 6\. Which day is (\S+)\?$/.exec(prompt[0]!.content)![1]!;
    const steps = data["steps"] as readonly string[];
    expect(Number(calculate(expression)) % 7).toBe(data["answer"]);
    expect(shareOfTrueSteps(steps.join("\n"))).toBe(1);
    for (const step of steps) expect(step).toMatch(/^[0-6]\+[1-6]=[0-6]$/);
    // The steps are the chain: each begins with the result before it and adds what comes next in the question.
    expect(steps[0]![0] + steps.map((step) => step.slice(1, 3)).join("")).toBe(expression);
    steps.slice(1).forEach((step, at) => expect(step[0]).toBe(steps[at]!.at(-1)));
    lengths.add(steps.length + 1);
  }
  expect([...lengths].sort()).toEqual([4, 5, 6]);
});

test("no chain is in both splits, and both variants ask the same", () => {
  const asked = (split: "train" | "test", count: number) =>
    Array.from({ length: count }, (_, i) => thinking.tasks(split).at(i).prompt[0]!.content);
  const trained = new Set(asked("train", 3_000));
  expect(asked("test", 1_000).filter((text) => trained.has(text))).toEqual([]);
  for (let i = 0; i < 20; i++) expect(silent.tasks("test").at(i)).toEqual(thinking.tasks("test").at(i));
});

test("the form is a gate: it earns nothing alone, and the right number earns nothing without it", async () => {
  const task = thinking.tasks("train").at(3);
  const right = `The answer is ${task.data["answer"] as number}.`;
  const wrong = `The answer is ${(task.data["answer"] as number) + 1}.`;
  const cases: [ScriptedTurn, number, number][] = [
    [said(right, "1+1=2"), 1, 1],
    [said(wrong, "1+1=2"), 1, 0],
    [said(right), 0, 0],
    [said(right, "  \n"), 0, 0],
    [said(`${right}<think>`, "1+1=2"), 0, 0],
    [said(right, "1+1=2 <think>"), 0, 0],
    [said("", `1+1=2 ${right}`), 0, 0],
    [said(right, "1+1=2", "truncated"), 0, 0],
  ];
  for (const [turn, form, score] of cases) {
    const { verdict, measures } = await playScripted(thinking, task, [turn]);
    expect(verdict).toMatchObject({ type: "scored", score, components: { form } });
    expect(measures["inForm"]).toBe(form);
    // Cut after a first step or less.
    expect(measures["allSteps"]).toBe(0);
  }
});

test("without reasoning the gate is the other way round", async () => {
  const task = silent.tasks("train").at(3);
  const right = `The answer is ${task.data["answer"] as number}.`;
  const scoreOf = async (turn: ScriptedTurn) => (await playScripted(silent, task, [turn])).verdict;
  expect(await scoreOf(said(right))).toMatchObject({ score: 1 });
  expect(await scoreOf(said(right, "1+1=2"))).toMatchObject({ score: 0, components: { form: 0, answer: 1 } });
  expect((await playScripted(silent, task, silent.reference!(task))).verdict).toMatchObject({ score: 1 });
  expect((await playScripted(thinking, task, thinking.reference!(task))).verdict).toMatchObject({ score: 1 });
  expect(fitsForm(undefined, false)).toBe(false);
});

test("true steps are counted by line", () => {
  expect(shareOfTrueSteps("4+3=0\n0+2=2")).toBe(1);
  expect(shareOfTrueSteps("4+3=0\n0+2=3\nhm\n6+6=5")).toBe(0.5);
  expect(shareOfTrueSteps("")).toBe(0);
});

test("the shipped model's template has no reasoning: the block stands in the text, and is read back from it", async () => {
  await using policy = await openPolicy("models/desk-1m", {});
  const { renderer } = policy;
  const task = thinking.tasks("train").at(0);
  const answer = worked(task, true);
  const ids = renderer.encodeTurn(renderer.start(task.prompt).state, answer);
  const steps = (task.data["steps"] as readonly string[]).join("\n");
  expect(renderer.tokenizer.decode(ids)).toBe(`<think>\n${steps}\n</think>\n\n${answer.content}<|im_end|>`);
  expect(renderer.parseTurn(ids, { type: "eos", id: ids.at(-1)! }, [])).toEqual({ message: answer, parse: "answer" });
  // Without its end the block swallows the answer, which the gate then misses.
  const open = renderer.tokenizer.encode(`<think>\n${steps}\nThe answer is 4.`);
  const { message, parse } = renderer.parseTurn([...open, ids.at(-1)!], { type: "eos", id: ids.at(-1)! }, []);
  expect(fitsForm({ row: 0, span: 0, replies: [], message, parse }, true)).toBe(false);
});

test("of a group the right answers are kept, each text once, at most so many", () => {
  const member = (content: string, score: number | string) => {
    const messages: readonly Message[] = [{ role: "user", content: "?" }, { role: "assistant", content }];
    return memberOf({ ...trajectoryOf([]), messages }, score);
  };
  const group = { members: [member("a", 1), member("b", 0), member("a", 1), member("c", 1), member("d", 1), member("e", "no gold")] };
  const kept = (keep: number): string[] => rightAnswers(group, keep).map((messages) => messages.at(-1)!.content);
  expect(kept(10)).toEqual(["a", "c", "d"]);
  expect(kept(2)).toEqual(["a", "c"]);
});

test("all four stages in small: each opens what the one before left, the third trains the base anew", { timeout: 300_000 }, async () => {
  const folder = await temporaryFolder();
  const variant = { name: "answers", reasoning: false };
  const few = { steps: 2, perStep: 2, learningRate: 1e-3 };
  const settings = {
    ...larger("models/desk-1m"), maxTokens: 16, evalTasks: 4, groupSize: 2, worked: 64,
    cold: { steps: 40, perStep: 16, learningRate: 4e-3 }, grpo: few, rejection: few, sampled: { tasks: 32, samples: 4, keep: 1 },
  };
  const seconds = await runStages({ variant, settings, folder });
  expect(Object.keys(seconds)).toEqual([...stages]);
  const modelOf = async (stage: string) => (await readRun(join(folder, `answers-${stage}`))).config["model"] as { path: string };
  expect((await modelOf("cold")).path).toBe(resolve("models/desk-1m"));
  expect((await modelOf("grpo-1")).path).toBe(join(folder, "answers-cold-model"));
  expect((await modelOf("rejection")).path).toBe(resolve("models/desk-1m"));
  expect((await modelOf("grpo-2")).path).toBe(join(folder, "answers-rejection-model"));
  const lines = readFileSync(join(folder, "answers-rejection.jsonl"), "utf8").trim().split("\n");
  for (const line of lines) {
    const { messages } = JSON.parse(line) as { messages: readonly Message[] };
    const value = Number(calculate(/is (\S+)\?$/.exec(messages[0]!.content)![1]!)) % 7;
    expect(messages.at(-1)!.content).toMatch(new RegExp(`answer is ${value}\\b`));
  }
  expect(await runStages({ variant, settings, folder })).toEqual({});
  const outcome = await readOutcome(folder, variant);
  const ends = outcome.ends.map(({ label, step }) => `${label} ${step}`);
  expect(ends).toEqual(["base 0", "cold 40", "grpo-1 42", "rejection 44", "grpo-2 46"]);
  expect(outcome.rewards.map(({ x }) => x)).toEqual([41, 42, 45, 46]);
  expect(stageTable([outcome]).split("\n")).toHaveLength(7);
});
