/** A whole environment: a shop's stock, one tool, a reward that reads one number, a reference, a measure. */
import { z } from "zod";
import { defineEnv, defineTool, number, tasksFrom, type Env, type Message, type Task } from "../src/index.ts";

const stock: Readonly<Record<string, number>> = { apples: 12, pears: 7, plums: 31, quinces: 4, lemons: 19, figs: 26 };

const lookUp = defineTool({
  name: "look_up",
  description: "Says how many of an item are in stock.",
  parameters: z.strictObject({ item: z.string() }),
  run: ({ item }, { state }) => {
    const found = stock[item];
    if (found === undefined) throw new Error(`no item ${item}; items: ${Object.keys(stock).join(", ")}`);
    state.set("seen", item);
    return String(found);
  },
});

/** The items of a split. No item is in both. */
const items = { train: ["apples", "pears", "plums", "quinces"], test: ["lemons", "figs"] } as const;
const question = (item: string) => ({ question: `How many ${item} are there?`, item, answer: stock[item]! });

function reference({ data }: Task): readonly Message[] {
  const call = { id: "call-1", name: "look_up", arguments: { item: data["item"]! } };
  return [
    { role: "assistant", content: "", toolCalls: [call] },
    { role: "assistant", content: `The answer is ${JSON.stringify(data["answer"])}.` },
  ];
}

export function shop(): Env {
  return defineEnv({
    name: "shop",
    tasks: (split) => tasksFrom(items[split].map(question), { name: split, system: "End with: The answer is X." }),
    tools: [lookUp],
    reward: number({ after: "answer is" }),
    reference,
    maxTurns: 3,
    measures: ({ calls }) => ({ lookedUp: calls.some(({ outcome }) => outcome === "ok") ? 1 : 0 }),
  });
}
