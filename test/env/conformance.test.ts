/** Every environment of the registry through one suite (but one, see below), and environments that break each rule of it. */
import { describe, expect, test } from "vitest";
import { environmentNames, openEnv } from "../../src/env/index.ts";
import { scored } from "../../src/errors.ts";
import { tasksFrom } from "../../src/loop/prompt/dataset.ts";
import { number } from "../../src/loop/reward/verifiers/number.ts";
import { checkEnv, type CheckEnvOptions } from "../../src/loop/rollout/check-env.ts";
import { defineEnv, type EnvDefinition } from "../../src/loop/rollout/tool-env.ts";
import type { Env, JsonObject } from "../../src/types.ts";
import { envChecks } from "../conformance/env.ts";

/** Options that an environment needs; the others are opened as they are. */
const given: Readonly<Record<string, JsonObject>> = { dataset: { path: "test/golden/parquet/folder", verifier: "math" } };

// Its tasks are in a package that is not this one's; it is played in miniwob.test.ts where they are.
describe.each(environmentNames.filter((name) => name !== "miniwob"))("%s", (name) => {
  envChecks(name, () => openEnv({ ...given[name], name }));
});

const rows = [7, 8, 9].map((answer) => ({ question: `What is ${answer} + 0? Say a number.`, answer }));
const sound: EnvDefinition = {
  name: "sound",
  tasks: (split) => tasksFrom(rows.map(({ question, answer }) => ({ question: `${split}: ${question}`, answer })), { name: split }),
  reward: number(),
  reference: ({ data }) => [{ role: "assistant", content: JSON.stringify(data["answer"]) }],
};
const broken = async (make: () => Env, options: CheckEnvOptions = {}): Promise<string[]> =>
  (await checkEnv(make, { randomAtMost: 1, ...options })).flatMap(({ name, ok, detail }) => (ok ? [] : [`${name}: ${detail}`]));

test("a sound environment passes", async () => {
  expect(await broken(() => defineEnv(sound))).toEqual([]);
});

test("each fault is found and told", async () => {
  expect(await broken(() => defineEnv({ ...sound, reward: () => scored(0, "no") }))).toEqual([
    "reference: task train:1: expected score 1 for the reference, got score 0",
  ]);
  expect((await broken(() => defineEnv({ ...sound, reward: () => scored(1, "yes") }))).map((line) => line.split(",")[0])).toEqual([
    "empty policy: task train:1: expected no score of 1 for saying nothing",
    "cut turn: task train:1: expected no score of 1 for a cut last turn",
  ]);
  expect(await broken(() => defineEnv({ ...sound, reward: () => scored(1, "yes") }), { randomAtMost: 0.5 })).toContain(
    "random policy: expected at most 0.5 of them won at random, got 6 of 6 episodes",
  );
  let count = 0;
  const restless = (): Env => defineEnv({ ...sound, measures: () => ({ count: ++count }) });
  expect((await broken(restless)).map((line) => line.split(":")[0])).toEqual(["same twice", "in parallel"]);
  expect(await broken(() => defineEnv({ ...sound, tasks: () => tasksFrom(rows, { name: `n${++count}` }) }))).toContain(
    "tasks: train task 2: expected the same in every instance, got another",
  );
});

test("a timer that outlives its episode is found", async () => {
  const timers: NodeJS.Timeout[] = [];
  const leaky = (): Env => ({
    ...defineEnv(sound),
    start: (task) => {
      timers.push(setInterval(() => undefined, 1000));
      return defineEnv(sound).start(task);
    },
  });
  const faults = await broken(leaky);
  timers.forEach((timer) => clearInterval(timer));
  expect(faults).toEqual(["nothing is left: expected nothing to be left, got one more Timeout"]);
});
