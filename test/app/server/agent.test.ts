/** Training with an agent of its own: a function, a command, and agents that fail, hang, or ask too often. */
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { agentRollouts, type Agent } from "../../../src/app/server/agent.ts";
import { commandAgent } from "../../../src/app/server/agent-command.ts";
import { scored } from "../../../src/errors.ts";
import { defineEnv } from "../../../src/loop/rollout/tool-env.ts";
import { tasksFrom } from "../../../src/loop/prompt/dataset.ts";
import { readTrajectories } from "../../../src/train/record/read-run.ts";
import { train } from "../../../src/train/train.ts";
import type { Env, Scored } from "../../../src/types.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";
import { desk } from "../../fakes/served.ts";

/** Pays for each 7 in the answer; an answer has a handful of tokens, so a policy can learn it in a few steps. */
const sevens: Env = defineEnv({
  name: "sevens",
  tasks: tasksFrom([{ question: "What is 3+4?" }, { question: "What is 2+5?" }], { question: "question" }),
  reward: ({ messages }) => {
    const text = messages.at(-1)!.content;
    return scored(text === messages[0]!.content ? 0 : Math.min(1, [...text].filter((character) => character === "7").length / 4), "sevens");
  },
});

const config = (steps: number, deadlineSeconds: number) => ({
  name: "agent",
  model: { path: desk, adapter: "lora" as const },
  algo: { name: "grpo" as const, groupSize: 4 },
  rollout: { tasksPerStep: 2, maxTokens: 8, maxTurns: 2, concurrency: 8, deadlineSeconds },
  optim: { learningRate: 0.02 },
  train: { steps, evalEvery: 0, checkpointEvery: steps },
});

/** Asks once, streaming at every other task, and leaves the rest to the environment's grader. */
const simple: Agent = async ({ baseURL, apiKey, task }) => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const messages = task.prompt.map(({ content }) => ({ role: "user" as const, content }));
  if (task.id.endsWith("1")) await client.chat.completions.create({ model: "gpt-4o", messages, temperature: 0.2 });
  else await client.chat.completions.stream({ model: "gpt-4o", messages }).finalChatCompletion();
};

async function trained(
  agent: Agent,
  env: Env,
  { steps, deadlineSeconds }: { steps: number; deadlineSeconds: number },
): Promise<readonly Scored[][]> {
  const runsFolder = await temporaryFolder();
  await using rollouts = agentRollouts(agent);
  await train(config(steps, deadlineSeconds), { env, attach: rollouts.attach, runsFolder, observer: {} });
  const found: Scored[][] = [];
  for (let step = 1; step <= steps; step++) {
    found.push((await readTrajectories(join(runsFolder, "agent"), "step", step)).map(({ scored: one }) => one));
  }
  return found;
}

const meanScore = (members: readonly Scored[]): number =>
  members.reduce((sum, { verdict }) => sum + (verdict.type === "scored" ? verdict.score : 0), 0) / members.length;

test("an unmodified agent learns: what it samples through the endpoint is trained, and the reward rises", async () => {
  const steps = await trained(simple, sevens, { steps: 12, deadlineSeconds: 60 });
  expect(steps.map(({ length }) => length)).toEqual(Array.from({ length: 12 }, () => 8));
  for (const { trajectory } of steps.flat()) {
    expect(trajectory.rows[0]!.spans.map(({ kind }) => kind)).toEqual(["context", "sampled"]);
    expect(trajectory.rows[0]!.spans[1]).toMatchObject({ temperature: 1 }); // the run's, whatever the agent asks
  }
  expect(meanScore(steps.slice(-3).flat())).toBeGreaterThan(meanScore(steps.slice(0, 3).flat()) + 0.2);
}, 120_000);

test("an agent that fails, hangs, never asks or asks too often ends its own episode alone; its own reward counts", async () => {
  let made = 0;
  const mixed: Agent = async (call) => {
    const kind = made++ % 8;
    if (kind === 0) throw new Error("a bug of the agent");
    if (kind === 1) return;
    if (kind === 5) return new Promise(() => undefined);
    if (kind === 2) {
      const more = Array.from({ length: 3 }, () => simple(call));
      await Promise.all(more);
    }
    await simple(call);
    const headers = { "content-type": "application/json", authorization: `Bearer ${call.apiKey}` };
    if (kind === 3) await fetch(call.rewardURL, { method: "POST", headers, body: JSON.stringify({ reward: 0.125 }) });
    if (kind === 4) {
      const gone = await fetch(call.baseURL.replace(call.session, "another") + "/chat/completions", {
        method: "POST",
        headers,
        body: "{}",
      });
      expect(gone.status).toBe(400);
    }
  };
  const [members] = await trained(mixed, sevens, { steps: 1, deadlineSeconds: 10 });
  const ends = members!.map(({ trajectory: { end } }) => (end.type === "error" ? `${end.boundary}: ${end.message}` : end.type));
  expect(ends.slice(0, 3)).toEqual(["agent: a bug of the agent", "agent: it ended without a call of the model", "turnLimit"]);
  expect(members!.slice(0, 2).map(({ verdict }) => verdict.type)).toEqual(["infrastructure", "infrastructure"]);
  expect(members![3]!.verdict).toMatchObject({ type: "scored", score: 0.125, explanation: "a number" });
  expect(ends[5]).toBe("timeout");
  expect(members!.slice(5).map(({ verdict }) => verdict.type)).toEqual(["infrastructure", "scored", "scored"]);
}, 60_000);

test("settings that an agent would ignore are refused, and the run's name stays free", async () => {
  const runsFolder = await temporaryFolder();
  for (const [rollout, message] of [
    [{ pace: "lockstep" as const }, /rollout\.pace/],
    [{ compaction: "last-turns" as const }, /rollout\.compaction/],
  ] as const) {
    await using rollouts = agentRollouts(simple);
    const asked = config(1, 10);
    const given = { ...asked, rollout: { ...asked.rollout, ...rollout } };
    await expect(train(given, { env: sevens, attach: rollouts.attach, runsFolder, observer: {} })).rejects.toThrow(message);
  }
  expect(await readdir(runsFolder)).toEqual([]);
});

test("a command: its environment, its failure with its last words, and its end with the episode", async () => {
  const run = (command: string, signal = new AbortController().signal) =>
    commandAgent(command, { cwd: process.cwd(), environment: process.env })({
      baseURL: "http://localhost:1/s/x/v1",
      apiKey: "k",
      session: "x",
      rewardURL: "r",
      signal,
      task: { id: "t", prompt: [{ role: "user", content: "hi" }], data: {} },
    });
  const file = join(await temporaryFolder(), "out");
  await run(`echo "$OPENAI_BASE_URL $OPENAI_API_KEY $FLYWHEEL_SESSION $FLYWHEEL_REWARD_URL $FLYWHEEL_TASK" > ${file}`);
  expect((await readFile(file, "utf8")).trim()).toBe(
    'http://localhost:1/s/x/v1 k x r {"id":"t","messages":[{"role":"user","content":"hi"}],"data":{}}',
  );
  await expect(run("echo no such key >&2; exit 3")).rejects.toThrow(/exit code 3: no such key/);
  const stop = new AbortController();
  const started = performance.now();
  const hanging = run(`(sleep 30; echo late > ${file}.late) & sleep 30`, stop.signal);
  setTimeout(() => stop.abort(new Error("late")), 200);
  await expect(hanging).rejects.toThrow(/ended by SIGKILL/);
  expect(performance.now() - started).toBeLessThan(5000);
}, 20_000);

test("flywheel train --agent: the example on OpenAI's SDK", async () => {
  const cwd = await temporaryFolder();
  const settings = [
    "--set",
    `model.path="${desk}"`,
    "--set",
    "train.steps=1",
    "--set",
    "rollout.tasksPerStep=1",
    "--set",
    "algo.groupSize=2",
  ];
  const agent = `"${process.execPath}" "${resolve("examples/agents/openai.mjs")}"`;
  const result = await runFlywheel(["train", resolve("examples/agents/sums.json"), "--agent", agent, ...settings], {
    cwd,
    environment: process.env,
  });
  expect(result.err).not.toContain("error:");
  expect(result.code).toBe(0);
  const members = await readTrajectories(join(cwd, "runs/agent"), "step", 1);
  expect(members).toHaveLength(2);
  for (const {
    scored: { trajectory },
  } of members) {
    expect(trajectory.turns.length).toBeGreaterThan(0);
    expect(trajectory.end.type).not.toBe("error");
  }
}, 60_000);
