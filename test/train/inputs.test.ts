/** What a run read when it began is what a resumed run reads, or it is refused by name. */
import { closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../src/loop/rollout/tools.ts";
import { tasksFrom } from "../../src/loop/prompt/dataset.ts";
import { parseTrainConfig } from "../../src/train/config.ts";
import { inputsOf } from "../../src/train/inputs.ts";
import { train, type TrainOptions } from "../../src/train/train.ts";
import type { Env } from "../../src/types.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

test("a changed task, tool, model, file or setting is refused by its name; unchanged, the run goes on", { timeout: 120_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  const config = lettersConfig(model, { train: { steps: 2, checkpointEvery: 1 }, rollout: { tasksPerStep: 2 } });
  const judge = join(runsFolder, "reward-model");
  mkdirSync(join(judge, "reward-1"), { recursive: true });
  writeFileSync(join(judge, "reward.json"), '{"mean": 0.5}');
  const adapter = join(judge, "reward-1", "adapter.safetensors");
  writeFileSync(adapter, "abc");
  const inputs = { files: [judge], settings: { caution: 0 } };
  const stop = new AbortController();
  const observer = { onStep: () => stop.abort(new Error("enough")) };
  const given = { env: letters(), runsFolder, inputs };
  await expect(train(config, { ...given, observer, signal: stop.signal })).rejects.toThrow("enough");

  const resumed = (changes: Partial<TrainOptions>) => train(config, { ...given, ...changes, resume: true });
  const refusal = (name: string) => new RegExp(`: expected ${name} as it was when the run began \\(SHA-256 .*restore it, or use another`);
  const last: Env = {
    ...letters(),
    tasks: (split) => {
      const source = letters().tasks(split);
      return { size: source.size, at: (i) => (i < 19 ? source.at(i) : { ...source.at(i), data: { answer: "changed" } }) };
    },
  };
  await expect(resumed({ env: last })).rejects.toThrow(refusal("environment letters"));
  await expect(resumed({ env: { ...letters(), tasks: () => tasksFrom([{ id: "t0", question: "0?" }]) } })).rejects.toThrow(
    refusal("environment letters"),
  );
  const tool = defineTool({ name: "count", description: "Counts.", parameters: z.strictObject({}), run: () => "1" });
  await expect(resumed({ env: { ...letters(), tools: [tool] } })).rejects.toThrow(refusal("environment letters"));
  await expect(resumed({ inputs: { ...inputs, settings: { caution: 1 } } })).rejects.toThrow(refusal("settings of attached models"));
  await expect(resumed({ inputs: { settings: inputs.settings } })).rejects.toThrow(/reward-model as it was .*got none/);
  writeFileSync(adapter, "abd");
  await expect(resumed({})).rejects.toThrow(refusal(judge));
  writeFileSync(adapter, "abc");
  const weights = join(model, "model.safetensors");
  const bytes = readFileSync(weights);
  writeFileSync(weights, Buffer.from(bytes).fill(1, bytes.length - 4));
  await expect(resumed({})).rejects.toThrow(refusal(`model ${model}`));
  writeFileSync(weights, bytes);
  expect((await resumed({})).steps).toBe(2);
});

test("a large file is hashed by its size and in pieces, in bounded time; a missing one is named", { timeout: 120_000 }, async () => {
  const folder = await temporaryFolder();
  const model = await writeTinyModel(join(folder, "model"), "llama");
  const config = parseTrainConfig(lettersConfig(model));
  const path = join(folder, "large.bin");
  const size = 3e8; // sparse: it takes no room
  const file = openSync(path, "w");
  ftruncateSync(file, size);
  const hash = async (): Promise<string> => (await inputsOf(config, { extra: { files: [path] } }))[path]!;
  const zeros = await hash();
  expect(await hash()).toBe(zeros);
  writeSync(file, "x", size - 1);
  const changed = await hash();
  expect(changed).not.toBe(zeros);
  closeSync(file);
  truncateSync(path, size - 1);
  expect([zeros, changed]).not.toContain(await hash());
  await expect(inputsOf(config, { extra: { files: [join(folder, "nowhere")] } })).rejects.toThrow(
    /^input .*nowhere: expected a readable file or folder, got ENOENT/,
  );
});
