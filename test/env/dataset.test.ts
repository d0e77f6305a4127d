import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openEnv } from "../../src/env/index.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { readJsonObject } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import type { Json, Message } from "../../src/types.ts";
import { envChecks } from "../conformance/env.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

const folder = "test/golden/parquet/folder";
envChecks("dataset", () => openEnv({ name: "dataset", path: folder, verifier: "math" }));

const say = (content: string): Message => ({ role: "assistant", content });

test("a configuration names columns and the verifier", async () => {
  const env = await openEnv({
    name: "dataset", path: folder, prompt: "{question} Answer with a number.", gold: "{answer}!",
    verifier: "text", verifierOptions: { match: "exact" },
  });
  const task = env.tasks("test").at(0);
  expect(task.prompt).toEqual([say("What is 6 + 6? ü 東 Answer with a number.")].map(({ content }) => ({ role: "user", content })));
  expect((await playScripted(env, task, [say("12!")])).verdict).toMatchObject({ score: 1 });
  expect((await playScripted(env, task, [say("12")])).verdict).toMatchObject({ score: 0 });
});

test.each<[Record<string, Json>, string]>([
  [{}, "env.verifier: expected the name of a verifier, got nothing; what grades"],
  [{ verifier: "maths" }, "verifier: expected one of citations"],
  [{ verifier: "math", verifierOptions: { second: "no" } }, "verifier math second: "],
  [{ verifier: "math", promt: "{question}" }, "env (dataset): expected options path, prompt, "],
  [{ verifier: "math", prompt: "{question" }, 'dataset: prompt: expected columns in braces, got "{question"'],
  [{ verifier: "math", prompt: "{task}" }, 'expected a column "task", got columns question, answer'],
])("a wrong option is refused by name: %j", async (options, message) => {
  await expect(openEnv({ name: "dataset", path: folder, ...options })).rejects.toThrow(message);
});

test("a run keeps the hash of the files; a resumed run with another content is refused", { timeout: 120_000 }, async () => {
  const home = await temporaryFolder();
  const model = await writeTinyModel(join(home, "model"), "llama", { max_position_embeddings: 512 });
  const rows = join(home, "rows.jsonl");
  writeFileSync(rows, '{"question": "1+1?", "answer": 2}\n{"question": "2+2?", "answer": 4}\n');
  const config = {
    name: "data",
    model: { path: model, adapter: "full" },
    env: { name: "dataset", path: rows, verifier: "math" },
    algo: { name: "grpo", groupSize: 2 },
    rollout: { tasksPerStep: 2, maxTokens: 4 },
    train: { steps: 1, evalEvery: 0, checkpointEvery: 1 },
  } as const;
  const { folder: run } = await train(config, { runsFolder: join(home, "runs") });
  const inputs = await readJsonObject(join(run, "inputs.json"));
  expect(Object.keys(inputs)).toContain(rows);
  expect(inputs[rows]).toMatch(/^[0-9a-f]{64}$/);
  writeFileSync(rows, '{"question": "1+1?", "answer": 3}\n{"question": "2+2?", "answer": 4}\n');
  await expect(train(config, { runsFolder: join(home, "runs"), resume: true })).rejects.toThrow("restore it, or use another name");
});
