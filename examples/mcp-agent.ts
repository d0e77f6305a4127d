/** An agent whose tool is on an MCP server: the server is started, its tools are listed, and GRPO trains on episodes that call them. */
import { fileURLToPath } from "node:url";
import { defineEnv, mcpTools, number, tasksFrom, train, type Env, type Message, type Task, type Tool } from "../src/index.ts";

const server = fileURLToPath(new URL("stock-server.mjs", import.meta.url));
const items = { train: ["apples", "pears", "plums", "quinces"], test: ["lemons", "figs"] } as const;
const answers: Readonly<Record<string, number>> = { apples: 12, pears: 7, plums: 31, quinces: 4, lemons: 19, figs: 26 };

function reference({ data }: Task): readonly Message[] {
  const call = { id: "call-1", name: "look_up", arguments: { item: data["item"]! } };
  return [
    { role: "assistant", content: "", toolCalls: [call] },
    { role: "assistant", content: `The answer is ${JSON.stringify(data["answer"])}.` },
  ];
}

export function stockRoom(tools: readonly Tool[]): Env {
  const row = (item: string) => ({ question: `How many ${item} are there?`, item, answer: answers[item]! });
  return defineEnv({
    name: "stock-room",
    tasks: (split) => tasksFrom(items[split].map(row), { name: split, system: "End with: The answer is X." }),
    tools,
    reward: number({ after: "answer is" }),
    reference,
    expects: ({ data }) => ({ needs: [{ tool: "look_up", arguments: { item: data["item"]! } }] }),
    limits: { toolCalls: 3, toolSeconds: 20 },
    maxTurns: 3,
  });
}

export async function trainStockRoom({ model, runsFolder, steps }: { model: string; runsFolder: string; steps: number }) {
  await using stock = await mcpTools({ command: process.execPath, args: [server] });
  return await train(
    {
      name: "stock-room",
      model: { path: model, adapter: "full" },
      algo: { name: "grpo", groupSize: 4 },
      rollout: { tasksPerStep: 2, maxTokens: 64, maxTurns: 3 },
      train: { steps, evalEvery: steps, evalTasks: 2, checkpointEvery: steps },
    },
    { env: stockRoom(stock.tools), runsFolder },
  );
}
