/** What `flywheel new env` writes: an environment that works as it stands, with a comment at each place that is to be changed. */

/** `name` in words-with-dashes; `factory` is the same as the name of a function. */
interface EnvNames {
  readonly name: string;
  readonly factory: string;
}

export function envSource({ name, factory }: EnvNames): string {
  return `/** The environment "${name}": what it asks, the tools that it gives, and what a right answer is. */
import { z } from "zod";
import { defineEnv, defineTool, number, tasksFrom, type Env, type Message, type Task } from "flywheel";

/** What the tasks are about. A task's fields are its data: the grader and the tools see them, the policy does not. */
const prices: Readonly<Record<string, number>> = { apple: 12, pear: 7, plum: 31, quince: 4, lemon: 19, fig: 26 };

/** No item of the test split is in the train split: what is measured there was never trained on. */
const items = { train: ["apple", "pear", "plum", "quince"], test: ["lemon", "fig"] } as const;

/** A tool: arguments are checked against the schema before \`run\` sees them; what \`run\` throws is told to the model. */
const price = defineTool({
  name: "price",
  description: "Says what an item costs.",
  parameters: z.strictObject({ item: z.string() }),
  run: ({ item }) => {
    const found = prices[item];
    if (found === undefined) throw new Error(\`no item \${item}; items: \${Object.keys(prices).join(", ")}\`);
    return String(found);
  },
});

export function ${factory}(): Env {
  return defineEnv({
    name: "${name}",
    // A row's \`question\` is the user's message. For files: dataset("rows.jsonl") or openDataset("folder").
    tasks: (split) =>
      tasksFrom(
        items[split].map((item) => ({ question: \`What do two of the item \${item} cost?\`, item, answer: 2 * prices[item]! })),
        { name: split, system: "Look up the price. End with: The answer is X." },
      ),
    tools: [price],
    // 1 if the number behind "answer is" is the task's \`answer\`. Verifiers for other answers: docs/verifiers.md.
    reward: number({ after: "answer is" }),
    // The turns of a right solution. It must score 1; \`flywheel play\` shows it with --reference, and supervised warm-up can use it.
    reference,
    // A rule of the task: the last turn's calls are not run, and the episode is over.
    maxTurns: 4,
    // Measured beside the reward and never part of it.
    measures: ({ calls }) => ({ lookedUp: calls.some(({ outcome }) => outcome === "ok") ? 1 : 0 }),
  });
}

function reference({ data }: Task): readonly Message[] {
  const call = { id: "call-1", name: "price", arguments: { item: data["item"]! } };
  return [
    { role: "assistant", content: "", toolCalls: [call] },
    { role: "assistant", content: \`The answer is \${JSON.stringify(data["answer"])}.\` },
  ];
}
`;
}

export function envTest({ name, factory }: EnvNames): string {
  return `import { checkEnv } from "flywheel";
import { expect, test } from "vitest";
import { ${factory} } from "./${name}.ts";

test("${name} keeps the rules of an environment", async () => {
  const checks = await checkEnv(() => ${factory}());
  expect(checks.filter(({ ok }) => !ok)).toEqual([]);
});

test("${name}: what is asked", () => {
  const task = ${factory}().tasks("train").at(0);
  expect(task.prompt.at(-1)!.content).toBe("What do two of the item apple cost?");
  expect(task.data["answer"]).toBe(24);
});
`;
}
