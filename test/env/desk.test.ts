import { expect, test } from "vitest";
import { calculate } from "../../src/env/desk/arithmetic.ts";
import { desk, questionOf } from "../../src/env/desk.ts";
import { playScripted, type ScriptedTurn } from "../../src/loop/rollout/scripted.ts";
import { openEnv } from "../../src/env/index.ts";
import type { Env, JsonObject, Message, Task } from "../../src/types.ts";
import { envConformance } from "../conformance/env.ts";

const env = desk();

envConformance("desk", {
  make: () => desk(),
  skeletons: ["The answer is .", "The answer is X.", "The answer is", "The answer is a number.", "<tool_call></tool_call>", "Hello."],
  entities: (task) => [...questionOf(task).records.map(({ name }) => name), ...(questionOf(task).text.match(/"[^"]+"/g) ?? [])],
});

test("the splits have 4,000 and 500 tasks of four kinds in the stated odds", () => {
  const train = env.tasks("train");
  expect([train.size, env.tasks("test").size]).toEqual([4_000, 500]);
  const counts: Record<string, number> = {};
  for (let i = 0; i < train.size; i++) counts[questionOf(train.at(i)).kind] = (counts[questionOf(train.at(i)).kind] ?? 0) + 1;
  const odds: Record<string, number> = { calculator: 0.35, lookup: 0.25, chain: 0.25, none: 0.15 };
  // Four standard deviations of a binomial count over 4,000 are at most 0.031.
  for (const [kind, odd] of Object.entries(odds)) expect(Math.abs(counts[kind]! / train.size - odd)).toBeLessThan(0.031);
});

test("numbers have at most four digits, prompts are short, and every need is what its tool answers", async () => {
  for (let i = 0; i < 400; i++) {
    const task = env.tasks("train").at(i);
    const { text, needs, answer } = questionOf(task);
    const numbers = [text, answer, ...needs.map((need) => need.result)].join(" ").match(/\d+/g) ?? [];
    expect(numbers.filter((value) => value.length > 4)).toEqual([]);
    expect(task.prompt.map((message) => message.content).join("").length).toBeLessThan(160);
    for (const need of needs) {
      const tool = env.tools.find((candidate) => candidate.spec.name === need.tool)!;
      expect(await tool.run(need.arguments, { task, state: new Map(), signal: new AbortController().signal })).toBe(need.result);
    }
  }
});

test.each([
  ["47*86", "4042"],
  ["(312+45)*7", "2499"],
  ["2+3*4-5", "9"],
  ["20-5-5", "10"],
  ["64/4/2", "8"],
  ["-(2+3)*-2", "10"],
  ["0.1+0.2", "0.3"],
  ["1/3", "0.3333333333"],
  [" 7 × 6 ÷ 2 ", "21"],
  ["0*-1", "0"],
  ["99999999*99999999", "9999999800000000"],
])("calculate(%j) is %s", (expression, value) => expect(calculate(expression)).toBe(value));

test.each([
  ["", 'expected a number at position 1, got the end'],
  ["2+", "expected a number at position 3, got the end"],
  ["2 3", 'expected an operator or the end at position 3, got "3"'],
  ["(2", 'expected ")" at position 3, got the end'],
  ["1.2.3", 'expected a number at position 1, got "1.2.3"'],
  ["process.exit()", 'expected a number at position 1, got "process."'],
  ["1/0", "division by zero"],
  ["1e9", 'expected an operator or the end at position 2, got "e9"'],
  ["1".repeat(81), "expression longer than 80 characters"],
  ["(".repeat(40), "more than 16 brackets or signs inside one another"],
])("calculate(%j) fails: %s", (expression, message) => expect(() => calculate(expression)).toThrow(message));

// ----------------------------------------------------------------------------------------- measures, on episodes by hand

const NAME = "blue toner";
const records = [{ name: NAME, price: "12", stock: "340", shelf: "B4" }];
const make = (data: JsonObject, text: string): Task => ({
  id: "hand",
  prompt: [{ role: "user", content: text }],
  data: { records, ...data, text },
});
const priceNeed = { tool: "lookup", arguments: { name: NAME, field: "price" }, result: "12" };
const sumNeed = { tool: "calculator", arguments: { expression: "7*12" }, result: "84" };
const chain = make({ kind: "chain", needs: [priceNeed, sumNeed], answer: "84", answerType: "number" }, `What do 7 "${NAME}" cost?`);
const sumOnly = make({ kind: "calculator", needs: [sumNeed], answer: "84", answerType: "number" }, "What is 7 times 12?");
const none = make({ kind: "none", needs: [], answer: "K7-31", answerType: "text" }, "Repeat the code K7-31.");

const call = (name: string, args: JsonObject): Message => ({
  role: "assistant",
  content: "",
  toolCalls: [{ id: name, name, arguments: args }],
});
const say = (content: string): Message => ({ role: "assistant", content });
const lookUpPrice = call("lookup", { name: NAME, field: "price" });
const sum = (expression: string): Message => call("calculator", { expression });
const malformed: ScriptedTurn = { message: say('<tool_call>{"name":"calculator"'), parse: "malformedToolCall" };

const MEASURES = ["toolMissed", "toolNeedless", "wrongTool", "malformedCall", "wrongArguments", "resultIgnored"];

test.each<[string, Task, readonly (Message | ScriptedTurn)[], readonly string[], number]>([
  ["right", chain, [lookUpPrice, sum("7*12"), say("The answer is 84.")], [], 1],
  ["right in smaller steps", chain, [lookUpPrice, sum("12+12"), sum("7*12"), say("84")], [], 1],
  ["guessed right", chain, [say("The answer is 84.")], ["toolMissed"], 1],
  ["guessed wrong", chain, [say("The answer is 85.")], ["toolMissed"], 0],
  ["half of the chain", chain, [lookUpPrice, say("The answer is 12.")], ["toolMissed"], 0],
  ["needless", none, [sum("7-31"), say("The answer is K7-31.")], ["toolNeedless"], 1],
  ["unknown tool, needless", none, [call("search", {}), say("K7-31")], ["toolNeedless", "wrongTool"], 1],
  ["wrong tool", sumOnly, [lookUpPrice, say("12")], ["toolMissed", "wrongTool"], 0],
  ["malformed, then right", chain, [malformed, lookUpPrice, sum("7*12"), say("84")], ["malformedCall"], 1],
  ["refused arguments", chain, [call("lookup", { name: NAME }), lookUpPrice, sum("7*12")], ["wrongArguments"], 0],
  ["another field", chain, [call("lookup", { name: NAME, field: "stock" }), sum("7*340"), say("2380")], ["wrongArguments"], 0],
  ["another sum", chain, [lookUpPrice, sum("7+12"), say("The answer is 19.")], ["wrongArguments"], 0],
  ["a foreign number first", chain, [lookUpPrice, sum("7*13"), sum("7*12"), say("84")], ["wrongArguments"], 1],
  ["ignored", chain, [lookUpPrice, sum("7*12"), say("The answer is 48.")], ["resultIgnored"], 0],
  ["no answer", chain, [lookUpPrice, sum("7*12")], [], 0],
])("measures of an episode: %s", async (_, task, script, flagged, score) => {
  const { measures, verdict } = await playScripted(env, task, script);
  expect(MEASURES.filter((measure) => measures[measure] === 1)).toEqual(flagged);
  expect(MEASURES.filter((measure) => measures[measure] === 0).length).toBe(MEASURES.length - flagged.length);
  expect(verdict).toMatchObject({ type: "scored", score });
});

test("what the model is told when a look-up fails", async () => {
  const replies = async (...script: Message[]) => (await playScripted(env, chain, script)).messages.slice(2).map(({ content }) => content);
  expect(await replies(call("lookup", { name: "red ink", field: "price" }))).toEqual(['error: no record named "red ink"']);
  const phone = call("lookup", { name: " Blue  TONER ", field: "phone" });
  expect(await replies(phone)).toEqual(['error: "blue toner" has no phone, only price, stock, shelf']);
  expect(await replies(sum("7 x 12"))).toEqual(['error: expected an operator or the end at position 3, got "x 12"']);
});

test("kinds of questions can be chosen; the rest are refused by name", () => {
  const kindsOf = (env: Env): unknown[] => Array.from({ length: 40 }, (_, i) => env.tasks("train").at(i).data["kind"]);
  expect(new Set(kindsOf(desk({ kinds: ["calculator"] })))).toEqual(new Set(["calculator"]));
  expect(new Set(kindsOf(openEnv({ name: "desk", kinds: ["lookup", "none"] })))).toEqual(new Set(["lookup", "none"]));
  expect(new Set(kindsOf(desk())).size).toBe(4);
  const want = 'a list of "calculator", "lookup", "chain", "none", each at most once';
  expect(() => desk({ kinds: [] })).toThrow(`env.kinds: expected ${want}, got []`);
  expect(() => openEnv({ name: "dsk" })).toThrow(/^env.name: expected one of .*desk, .*, got dsk \(did you mean desk\?\)$/);
  expect(() => openEnv({ name: "desk", knds: [] })).toThrow("env (desk): expected options seed, kinds, got knds (did you mean kinds?)");
  expect(() => openEnv({ name: "desk", kinds: ["sum"] })).toThrow("env.kinds: expected a list");
});
