import { expect, test } from "vitest";
import { scored } from "../../../src/errors.ts";
import { gated, weighted } from "../../../src/loop/reward/compose.ts";
import { finalAnswer } from "../../../src/loop/reward/final-answer.ts";
import { toolUse, type ToolExpectation } from "../../../src/tool-use.ts";
import { exactText } from "../../../src/loop/reward/verifiers/exact-text.ts";
import type { CallOutcome, CallRecord } from "../../../src/loop/rollout/tools.ts";
import type { Json, JsonObject, Message, Reward, Turn, Verdict } from "../../../src/types.ts";

type Episode = Parameters<Reward>[0];
const turn = (parse: Turn["parse"]): Turn => ({ row: 0, span: 1, message: { role: "assistant", content: "x" }, parse, replies: [] });
const episode = (answer: string, gold: Json = "African Wild Dog", parse: Turn["parse"] = "answer"): Episode => ({
  task: { id: "t", prompt: [], data: { answer: gold } },
  messages: [{ role: "user", content: "Which animal? African Wild Dog" }, { role: "assistant", content: answer }],
  turns: [turn(parse)],
});
const score = (verdict: Verdict): number | string => (verdict.type === "scored" ? verdict.score : verdict.type);

test.each([
  ["", 0], [" ", 0], ["a", 0], ["African", 0], ["African Wild Dog, or a cat, or a fox", 0], ["Which animal? African Wild Dog", 0],
  ["African Wild Dog", 1], ["african  wild\ndog.", 1], ['"African Wild Dog"!', 1], ["**African Wild Dog**", 1], ["African Wild Dog?", 0],
])("exact text: %j scores %d", (answer, right) => expect(score(exactText()(episode(answer)))).toBe(right));

test("exact text after a marker compares what follows its last occurrence", () => {
  const reward = exactText({ after: "answer is" });
  expect(score(reward(episode("The answer is K7-31.", "K7-31")))).toBe(1);
  expect(score(reward(episode("İ: the ANSWER IS no. The answer is K7-31.", "K7-31")))).toBe(1);
  expect(score(reward(episode("The answer is K7-31 or K7-32.", "K7-31")))).toBe(0);
  expect(score(reward(episode("K7-31", "K7-31")))).toBe(1);
  expect(score(reward(episode(".5", "5")))).toBe(0);
});

test.each([null, "", " . ", 5])("a gold text of %j is unscorable", (gold) => {
  expect(score(exactText()(episode("5", gold)))).toBe("unscorable");
});
test("a task without a gold is unscorable also where no answer was given", () => {
  expect(exactText()(episode("5", null, "truncated"))).toEqual({ type: "unscorable", reason: 'task data "answer" holds no text' });
});

test("the final answer is the last assistant message without calls, of a finished turn", () => {
  expect(finalAnswer(episode("yes"))).toEqual({ type: "answer", text: "yes" });
  const reason = (given: Pick<Episode, "messages" | "turns">) => {
    const answer = finalAnswer(given);
    return answer.type === "none" ? answer.reason : answer;
  };
  expect(reason(episode("yes", "yes", "truncated"))).toBe("the last turn was cut off");
  expect(reason(episode("yes", "yes", "toolCalls"))).toBe("the episode ended with a tool call, not with an answer");
  expect(reason(episode("yes", "yes", "malformedToolCall"))).toBe("the episode ended with a tool call that could not be read");
  const calling: Message = { role: "assistant", content: "yes", toolCalls: [{ id: "1", name: "f", arguments: {} }] };
  expect(reason({ messages: [calling], turns: [] })).toBe("the episode ended with a tool call, not with an answer");
  expect(reason({ messages: [{ role: "user", content: "42" }], turns: [] })).toBe("the last message is not the assistant's");
  expect(exactText()(episode("yes", "yes", "truncated"))).toEqual(scored(0, "the last turn was cut off"));
});

test("the last message decides, not what the user said", () => {
  const messages: Message[] = [{ role: "assistant", content: "41" }, { role: "user", content: "42" }];
  expect(score(exactText()({ ...episode(""), messages, turns: [] }))).toBe(0);
});

const fixed = (value: number, components: Record<string, number> = {}): Reward => () => scored(value, `fixed ${value}`, components);
const broken: Reward = () => ({ type: "infrastructure", reason: "grader offline" });
const unscorable: Reward = async () => ({ type: "unscorable", reason: "no gold" });

test("a weighted sum with its parts logged", async () => {
  const correct = { reward: fixed(1, { digits: 3 }), weight: 0.7 };
  const verdict = await weighted({ correct, format: { reward: fixed(0), weight: 0.3 } })(episode(""));
  expect(verdict).toEqual({
    type: "scored",
    score: 0.7,
    components: { correct: 1, "correct.digits": 3, format: 0 },
    explanation: "correct 1 (fixed 1); format 0 (fixed 0)",
  });
});

test("a gate allows a score and never earns one", async () => {
  const run = async (gate: number, value: number) => gated({ format: fixed(gate) }, "correct", fixed(value))(episode(""));
  expect(score(await run(1, 1))).toBe(1);
  expect(score(await run(0, 1))).toBe(0);
  expect(score(await run(1, 0))).toBe(0);
  expect(score(await run(0.99, 1))).toBe(0);
  expect(await run(0, 1)).toMatchObject({ components: { format: 0, correct: 1 } });
});

test("one part that could not grade makes the whole so; an infrastructure failure is named first", async () => {
  const of = (reward: Reward) => ({ reward, weight: 1 });
  expect(await weighted({ a: of(fixed(1)), b: of(unscorable) })(episode(""))).toEqual({ type: "unscorable", reason: "b: no gold" });
  const both = await weighted({ a: of(unscorable), b: of(broken) })(episode(""));
  expect(both).toEqual({ type: "infrastructure", reason: "b: grader offline" });
  expect(await gated({ g: broken }, "correct", fixed(0))(episode(""))).toEqual({ type: "infrastructure", reason: "g: grader offline" });
});

test("compositions that cannot work are refused when they are made", () => {
  const weightless = { a: { reward: fixed(1), weight: Number.NaN } };
  expect(() => weighted(weightless)).toThrow("reward component a: weight: expected a finite number, got NaN");
  expect(() => weighted({})).toThrow("composed reward: expected at least one component, got none");
  expect(() => gated({ a: fixed(1) }, "a", fixed(1))).toThrow(/distinct names/);
});

// ---------------------------------------------------------------------------------------------------------- tool use

const record = (name: string, resultText: string, outcome: CallOutcome = "ok"): CallRecord => ({
  call: { id: name, name, arguments: {} },
  outcome,
  resultText,
  ms: 0,
});
const needs = [{ tool: "find", result: "12" }, { tool: "add", result: "84" }];
const flags = (given: Partial<Parameters<typeof toolUse>[0]>, more: Partial<ToolExpectation> = {}): string[] => {
  const expects = { needs, right: (answer: string) => answer === "84", ...more };
  const measures = toolUse({ expects, calls: [], malformed: 0, answer: "84", question: "", ...given });
  return Object.entries(measures).filter(([, value]) => value === 1).map(([name]) => name);
};

test("tool use without `concerns`: each mistake is one flag", () => {
  const good = [record("find", "12"), record("add", "84")];
  expect(flags({ calls: good })).toEqual([]);
  expect(flags({ calls: good, answer: null })).toEqual([]);
  expect(flags({ calls: good, answer: "85" })).toEqual(["resultIgnored"]);
  expect(flags({ calls: good.slice(0, 1), answer: "85" })).toEqual(["missed"]);
  expect(flags({ calls: [...good, record("other", "1")] })).toEqual(["wrongTool"]);
  expect(flags({ calls: [...good, record("none", "error", "unknown-tool")] })).toEqual(["wrongTool"]);
  expect(flags({ calls: [...good, record("add", "85")] })).toEqual(["wrongArguments"]);
  expect(flags({ calls: [...good, record("add", "84", "bad-arguments")] })).toEqual(["wrongArguments"]);
  expect(flags({ calls: [record("add", "error: slow", "timeout"), ...good] })).toEqual([]);
  expect(flags({ calls: good, malformed: 2 })).toEqual(["malformed"]);
  expect(flags({ calls: [good[0]!, record("add", "error: not run", "not-run")] })).toEqual(["missed"]);
  expect(flags({ calls: good }, { needs: [] })).toEqual(["needless"]);
  expect(flags({}, { needs: [] })).toEqual([]);
});

test("needs by arguments, in any order of names, or by the tool alone", () => {
  const call = { id: "1", name: "put", arguments: { row: 1, at: { x: 1, y: 2 } } };
  const put: CallRecord = { call, outcome: "ok", resultText: "done", ms: 0 };
  const wants = (args?: JsonObject) => ({ needs: [{ tool: "put", ...(args === undefined ? {} : { arguments: args }) }] });
  expect(flags({ calls: [put] }, wants({ at: { y: 2, x: 1 }, row: 1 }))).toEqual([]);
  expect(flags({ calls: [put] }, wants())).toEqual([]);
  expect(flags({ calls: [put] }, wants({ at: { y: 2, x: 1 }, row: 2 }))).toEqual(["wrongArguments"]);
  expect(flags({ calls: [put] }, wants({ row: 1 }))).toEqual(["wrongArguments"]);
});

test("without expectations the trajectory alone is measured: what was needed is unknown and not a number", () => {
  const alone = (given: Partial<Parameters<typeof toolUse>[0]>) =>
    toolUse({ calls: [], malformed: 0, answer: null, question: "How much is blue ink?", ...given });
  const clean = { wrongTool: 0, malformed: 0, wrongArguments: 0, resultIgnored: 0 };
  expect(alone({})).toEqual(clean);
  const found = [record("find", "blue ink: 12.50 euros")];
  expect(alone({ calls: found, answer: "It is 12.50." })).toEqual(clean);
  expect(alone({ calls: found, answer: "Blue ink is 13.50." })).toEqual({ ...clean, resultIgnored: 1 });
  expect(alone({ calls: found })).toEqual(clean);
  expect(alone({ calls: [record("find", "blue ink")], answer: "no idea" })).toEqual(clean);
  expect(alone({ calls: [record("none", "error", "unknown-tool")], malformed: 1 })).toEqual({ ...clean, wrongTool: 1, malformed: 1 });
  expect(alone({ calls: [record("find", "error: what?", "bad-arguments")] })).toEqual({ ...clean, wrongArguments: 1 });
  expect(alone({ calls: [record("find", "error: no such item", "error")] })).toEqual({ ...clean, wrongArguments: 1 });
});
