import { expect, test } from "vitest";
import { stockRoom, trainStockRoom } from "../../examples/mcp-agent.ts";
import { mcpTools } from "../../src/index.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { temporaryFolder } from "../fakes/model-folders.ts";

test("the reference calls the server and scores 1; mistakes are measured", { timeout: 60_000 }, async () => {
  await using stock = await mcpTools({ command: process.execPath, args: ["examples/stock-server.mjs"] });
  const env = stockRoom(stock.tools);
  for (const split of ["train", "test"] as const) {
    const source = env.tasks(split);
    for (let i = 0; i < source.size; i++) {
      const task = source.at(i);
      const right = await playScripted(env, task, env.reference!(task));
      expect(right.verdict).toMatchObject({ type: "scored", score: 1 });
      expect(right.measures).toMatchObject({ "tools/missed": 0, "tools/wrongArguments": 0, "tools/resultIgnored": 0, "tools/spent": 0 });
    }
  }
  const task = env.tasks("train").at(0);
  const call = { id: "1", name: "look_up", arguments: { item: "kiwis" } };
  const wrong = await playScripted(env, task, [
    { role: "assistant", content: "", toolCalls: [call] },
    { role: "assistant", content: "The answer is 5." },
  ]);
  expect(wrong.messages.at(-2)!.content).toBe("error: no item kiwis; items: apples, pears, plums, quinces, lemons, figs");
  expect(wrong.measures).toMatchObject({ "tools/missed": 0, "tools/wrongArguments": 1, "tools/errors": 1 });
});

test("two steps of GRPO on the shipped model: every rollout is graded, and the server was asked", { timeout: 240_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const result = await trainStockRoom({ model: "models/desk-1m", runsFolder, steps: 2 });
  expect(result.steps).toBe(2);
  expect(Object.keys(result.evaluation!.measures)).toEqual(expect.arrayContaining(["seconds/tools", "tools/missed"]));
  const { metrics } = await readRun(result.folder);
  const steps = metrics.filter((row) => "tools/calls" in row);
  expect(steps.length).toBe(2);
  const wanted = { "tools/missed": expect.any(Number), "tools/needless": 0, "seconds/tools": expect.any(Number) };
  for (const row of steps) expect(row).toMatchObject(wanted);
  const all = [...(await readTrajectories(result.folder, "step", 1)), ...(await readTrajectories(result.folder, "step", 2))];
  expect(all.length).toBe(16);
  for (const { scored } of all) expect(scored.verdict.type).toBe("scored");
});
