/**
 * How the author of a warm-up dialogue behaves: rightly, or with one named mistake. Which one is drawn for every dialogue and cannot be
 * told from the question, so a model trained on them stays undecided between good and bad behaviour. That indecision is what
 * reinforcement learning then has to work on: samples of one question differ, and so do their rewards.
 */
import { calculate } from "../../src/env/desk/arithmetic.ts";
import type { Draw } from "../../src/env/desk/draw.ts";
import type { NeededCall, Question, QuestionKind } from "../../src/env/desk/question.ts";
import { PERSON_FIELDS, PRODUCT_FIELDS, type Field } from "../../src/env/desk/records.ts";
import { WORDS } from "../../src/env/desk/words.ts";
import type { ScriptedTurn } from "../../src/loop/rollout/scripted.ts";
import type { JsonObject, Message } from "../../src/types.ts";

export type Behaviour =
  | "right"
  /** Answers with a made-up value, without a tool. */
  | "guess"
  /** Calls the other tool, is told an error, and makes a value up. */
  | "wrongTool"
  /** Another operator or another field; reports what came back. */
  | "wrongArguments"
  /** Calls rightly and answers something else. */
  | "ignoredResult"
  /** Looks up, and reports that without the sum that should follow. */
  | "halfChain"
  /** Calls a tool where none is needed, is told an error, and makes a value up. */
  | "needlessTool"
  /** Writes a call that cannot be read, is told so, and then does it right. */
  | "malformed";

type Mistake = Exclude<Behaviour, "right">;

/** Odds among the mistakes of each kind of question, in percent. */
export const MISTAKES: { readonly [K in QuestionKind]: { readonly [M in Mistake]: number } } = {
  calculator: { guess: 42, wrongTool: 12, wrongArguments: 24, ignoredResult: 18, halfChain: 0, needlessTool: 0, malformed: 4 },
  lookup: { guess: 40, wrongTool: 12, wrongArguments: 26, ignoredResult: 18, halfChain: 0, needlessTool: 0, malformed: 4 },
  chain: { guess: 26, wrongTool: 6, wrongArguments: 20, ignoredResult: 14, halfChain: 30, needlessTool: 0, malformed: 4 },
  none: { guess: 25, wrongTool: 0, wrongArguments: 0, ignoredResult: 0, halfChain: 0, needlessTool: 75, malformed: 0 },
};

/** "right" with probability `right`, else a mistake with the odds of the question's kind. */
export function drawBehaviour(random: Draw, kind: QuestionKind, right: number): Behaviour {
  if (random.weighted([right, 1 - right]) === 0) return "right";
  const mistakes = Object.entries(MISTAKES[kind]) as [Mistake, number][];
  return mistakes[random.weighted(mistakes.map(([, odds]) => odds))]![0];
}

/** The assistant turns of a dialogue in which the author behaves so. */
export function scriptOf(question: Question, behaviour: Behaviour, random: Draw): readonly ScriptedTurn[] {
  const { needs } = question;
  const calls = needs.map(({ tool, arguments: args }) => call(tool, args));
  const madeUp = (): ScriptedTurn => answer(`The answer is ${wrongValue(question, random)}.`);
  switch (behaviour) {
    case "right":
      return [...calls, answer(question.final)];
    case "guess":
      return [madeUp()];
    case "ignoredResult":
      return [...calls, madeUp()];
    case "halfChain":
      return [calls[0]!, answer(`The answer is ${needs[0]!.result}.`)];
    case "malformed":
      return [unreadable(needs[0]!), ...calls, answer(question.final)];
    case "wrongTool":
      return [otherTool(needs[0]!), madeUp()];
    case "needlessTool":
      return [needless(question, random), madeUp()];
    case "wrongArguments":
      return wrongArguments(question, random);
  }
}

function call(name: string, args: JsonObject): ScriptedTurn {
  const message: Message = { role: "assistant", content: "", toolCalls: [{ id: "call", name, arguments: args }] };
  return { message, parse: "toolCalls" };
}

function answer(content: string): ScriptedTurn {
  return { message: { role: "assistant", content }, parse: "answer" };
}

/** The call as the chat template of this recipe writes it, without the two braces that close it. */
function unreadable(need: NeededCall): ScriptedTurn {
  const args = Object.entries(need.arguments).map(([key, value]) => `"${key}": ${JSON.stringify(value)}`);
  const text = `{"name": "${need.tool}", "arguments": {${args.join(", ")}`;
  return { message: { role: "assistant", content: `<tool_call>${text}</tool_call>` }, parse: "malformedToolCall" };
}

function otherTool(need: NeededCall): ScriptedTurn {
  if (need.tool === "lookup") return call("calculator", { expression: need.arguments["name"]! });
  return call("lookup", { name: /\d+/.exec(need.arguments["expression"]!)![0], field: "price" });
}

function needless({ text }: Question, random: Draw): ScriptedTurn {
  const name = /"([^"]+)"/.exec(text)?.[1] ?? random.pick(text.match(/[\w-]+(?=[.,?])/g)!);
  if (random.range(0, 1) === 0) return call("calculator", { expression: name });
  return call("lookup", { name, field: random.pick(["shelf", "desk", "price"]) });
}

/** The last need of a right script with another operator or field, and the answer that its result suggests. */
function wrongArguments({ needs, records }: Question, random: Draw): readonly ScriptedTurn[] {
  const last = needs.at(-1)!;
  const before = needs.slice(0, -1).map(({ tool, arguments: args }) => call(tool, args));
  if (last.tool === "calculator") {
    const expression = otherOperator(last.arguments["expression"]!, random);
    return [...before, call("calculator", { expression }), answer(`The answer is ${calculate(expression)}.`)];
  }
  const name = last.arguments["name"]!;
  const record = records.find((candidate) => candidate.name === name)!;
  const fields: readonly Field[] = record.price === undefined ? PERSON_FIELDS : PRODUCT_FIELDS;
  const field = random.pick(fields.filter((candidate) => candidate !== last.arguments["field"]));
  return [...before, call("lookup", { name, field }), answer(`The answer is ${record[field]!}.`)];
}

/** One operator changed for another that gives another value, not negative; every sum of the desk has such a neighbour below 100,000. */
function otherOperator(expression: string, random: Draw): string {
  const right = calculate(expression);
  const variants = [...expression.matchAll(/[-+*]/g)].flatMap(({ index }) =>
    ["+", "-", "*"].map((operator) => expression.slice(0, index) + operator + expression.slice(index + 1)),
  );
  return random.pick(variants.filter((variant) => calculate(variant) !== right && /^\d{1,5}$/.test(calculate(variant))));
}

/** Of the same form as the right answer, and wrong: other digits if it has any, else another word of the same list. */
function wrongValue({ answer: right }: Question, random: Draw): string {
  if (/\d/.test(right)) {
    for (;;) {
      const value = right.replace(/\d/g, () => String(random.range(1, 9)));
      if (value !== right) return value;
    }
  }
  const { rooms, items, firstNames, lastNames } = WORDS.train;
  if (right.startsWith("Hello ")) {
    return `Hello ${random.pick(firstNames)} ${random.pick(lastNames.filter((name) => !right.endsWith(name)))}`;
  }
  return random.pick((rooms.includes(right) ? rooms : items).filter((word) => word !== right));
}
