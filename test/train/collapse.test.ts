/** Signs of a policy that falls apart, and what a run does about them. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scored } from "../../src/errors.ts";
import { CollapseDetector, healthOf, type Health } from "../../src/train/collapse.ts";
import { readRun } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import type { Env } from "../../src/types.ts";
import { context, memberOf, QUESTION, sampled, trajectoryOf } from "../fakes/credit.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

const healthy: Health = { entropy: 2, repetition: 0.1, length: 100 };

/** The first thing that a detector says of `steps` healthy steps and then ten others. */
function told(change: (step: number) => Partial<Health>, steps = 10) {
  const detector = new CollapseDetector();
  for (let step = 1; step <= steps + 10; step++) {
    const found = detector.observe(step, { ...healthy, ...(step > steps ? change(step - steps) : {}) });
    if (found !== undefined) return { ...found, step };
  }
  return undefined;
}

test.each<[string, (step: number) => Partial<Health>, string]>([
  ["entropy", () => ({ entropy: 0.01 }), "entropy fell to 0.010 nats a token (at first 2.0)"],
  ["repetition", () => ({ repetition: 0.9 }), "repeated 4-grams rose to 0.58 of all (at first 0.10)"],
  ["answers that grow short", () => ({ length: 2 }), "completions have 2.0 tokens (at first 1.0e+2)"],
  ["answers that run away", () => ({ length: 900 }), "completions have 5.8e+2 tokens (at first 1.0e+2)"],
  ["KL", (step) => ({ kl: step / 2 }), "KL to the reference grows by"],
])("%s", (_what, change, sign) => {
  const found = told(change)!;
  expect(found.sign).toContain(sign);
  expect(found.since).toBe(found.step - 9);
});

test("a healthy policy, a slow drift and one bad step say nothing; each sign is told once", () => {
  expect(told(() => ({}))).toBeUndefined();
  expect(told((step) => ({ entropy: 2 - step / 10, length: 100 + 10 * step, kl: step / 20 }))).toBeUndefined();
  expect(told((step) => (step === 1 ? { entropy: 0 } : {}))).toBeUndefined();
  const detector = new CollapseDetector();
  const signs = Array.from({ length: 40 }, (_, i) => detector.observe(i + 1, i < 10 ? healthy : { ...healthy, entropy: 0.01 }));
  expect(signs.filter((sign) => sign !== undefined).length).toBe(1);
});

test("what it remembers goes through JSON: the same sign at the same step", () => {
  let detector = new CollapseDetector();
  const found: number[] = [];
  for (let step = 1; step <= 20; step++) {
    if (detector.observe(step, step > 8 ? { ...healthy, entropy: 0 } : healthy) !== undefined) found.push(step);
    detector = new CollapseDetector(JSON.parse(JSON.stringify(detector.state)) as never);
  }
  expect(found).toEqual([13]);
  expect(() => new CollapseDetector({ first: 1 })).toThrow("checkpoint: collapse: expected what a detector wrote, got");
});

test("health is counted on what was sampled", () => {
  const row = { spans: [context(1, 2), sampled([5, 6, 7, 8, 5, 6, 7, 8], [-1, -1, -1, -1, -3, -3, -3, -3])] };
  const one = memberOf(trajectoryOf([row]), 1);
  expect(healthOf([{ task: QUESTION, members: [one] }], 0.25)).toEqual({ entropy: 2, repetition: 0.2, length: 8, kl: 0.25 });
  expect(healthOf([], undefined)).toEqual({ entropy: 0, repetition: 0, length: 0 });
});

/** Pays for one letter alone: a policy of full fine-tuning at a high rate says nothing else soon. */
function oneLetter(): Env {
  const share = (text: string): number => [...text].filter((letter) => letter === "a").length / 4;
  return { ...letters(), reward: ({ messages }) => scored(share(messages.at(-1)!.content), "a") };
}

async function collapsing(onCollapse: "warn" | "stop" | "rollback") {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", { max_position_embeddings: 256 });
  const notes: string[] = [];
  const often = { steps: 40, checkpointEvery: 2, keepCheckpoints: 20, onCollapse };
  const config = lettersConfig(model, { optim: { learningRate: 3e-2 }, train: often });
  const result = await train(config, { env: oneLetter(), runsFolder, observer: { onNote: (text) => notes.push(text) } });
  return { ...result, notes, checkpoints: readdirSync(join(result.folder, "checkpoints")) };
}

test("stop ends the run with its weights; rollback goes back to the last checkpoint before it began", { timeout: 300_000 }, async () => {
  const stopped = await collapsing("stop");
  expect(stopped.steps).toBeLessThan(40);
  const said = new RegExp(`^stopped after step ${stopped.steps}: entropy fell to .*; the weights are those of this step$`);
  expect(stopped.stopped).toMatch(said);
  expect(stopped.notes).toContain(stopped.stopped);
  const name = (step: number): string => `step-${String(step).padStart(6, "0")}`;
  expect(stopped.checkpoints).toContain(name(stopped.steps));

  const back = await collapsing("rollback");
  expect(back.steps).toBe(stopped.steps);
  const good = Math.floor((back.steps - 10) / 2) * 2;
  expect(good).toBeGreaterThan(0);
  expect(back.stopped).toContain(`; back at the weights of step ${good}, the last checkpoint before it began`);
  expect(back.checkpoints.filter((each) => each.startsWith("step-")).every((each) => each <= name(good))).toBe(true);
  expect(existsSync(join(back.folder, "checkpoints", `collapsed-${name(back.steps)}`))).toBe(true);
  expect((await readRun(back.folder)).ledger.length).toBe(back.steps);
});
