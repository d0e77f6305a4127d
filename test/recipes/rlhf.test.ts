/** The task of recipes/rlhf: gold scores and labels in closed form, the rule for stopping, and every stage in small. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { labelled, prefersFirst, sampledPairs, scriptedDialogues } from "../../recipes/rlhf/answers.ts";
import { tables } from "../../recipes/rlhf/figures.ts";
import { curvesOf } from "../../recipes/rlhf/measure.ts";
import { annotator, small, type Setup } from "../../recipes/rlhf/setup.ts";
import { direct, foundation, single, type Place } from "../../recipes/rlhf/stages.ts";
import { stopOf } from "../../recipes/rlhf/stop.ts";
import { gold, helpful, promptOf, requestOf, type Request } from "../../recipes/rlhf/task.ts";
import { verified } from "../../recipes/rlhf/verified.ts";
import { draw } from "../../src/env/desk/draw.ts";
import { rng } from "../../src/random.ts";
import { temporaryFolder } from "../fakes/model-folders.ts";

const one: Request = { facts: { price: "45", stock: "31", shelf: "B4" }, asked: ["price"] };
const two: Request = { ...one, asked: ["price", "shelf"] };

test.each<[string, Request, number]>([
  ["The price is 45. Thank you.", one, 1],
  ["Hello. The price is 45. Thank you.", one, 1],
  ["The price is 45.", one, 0.8],
  ["The price is 45. Thank you.", two, 0.6], // one of two facts: 0.4, and 0.2 for thanks
  ["The price is 31. Thank you.", one, -0.2], // 0.2 - 0.4
  ["The price is 45. The price is 46. Thank you.", one, 0.6], // both cannot be true: 1 - 0.4
  ["The price is 45. The stock is 31. Thank you.", one, 0.9], // nobody asked for the stock
  ["The price is 45. Thank you. Thank you. Thank you.", one, 0.6], // twice again: 1 - 2 x 0.2
  ["The price is 45. All is well. Thank", one, 0.6], // filler, and a cut sentence: 0.8 - 2 x 0.1
  ["The price is 45. Tell me the price.", one, 0], // the request itself
  ["", one, 0],
  [Array.from({ length: 12 }, () => "All is well.").join(" "), one, -1],
])("gold of %j", (answer, request, right) => {
  expect(gold(answer, request).score).toBeCloseTo(right, 12);
});

test("the reference answer scores 1; train and test ask different things; the prompt shows what the request holds", async () => {
  for (const split of ["train", "test"] as const) {
    const task = helpful.tasks(split).at(3);
    const messages = [...task.prompt, ...helpful.reference!(task)];
    expect(await helpful.reward({ task, messages, turns: [] })).toMatchObject({ type: "scored", score: 1 });
  }
  expect(helpful.tasks("train").at(3).prompt).not.toEqual(helpful.tasks("test").at(3).prompt);
  const content = "The price is 45. The stock is 31. The shelf is B4. Tell me the price and the shelf.";
  expect(promptOf(two)).toEqual([{ role: "user", content }]);
});

test("the annotator prefers gold and, a little, length; a share of labels is turned round", () => {
  const random = (i: number) => draw(rng(0, "labels", i));
  const [good, padded] = ["The price is 45. Thank you.", "The price is 45. Thank you. We are here."];
  const prefers = (answers: readonly [string, string], noise: number, perWord: number, i = 0): boolean =>
    prefersFirst(answers, one, { noise, perWord, random: random(i) });
  // 1 against 0.9: three words more make up for 0.1 from 0.0334 a word on.
  expect(prefers([good, padded], 0, 0.033)).toBe(true);
  expect(prefers([good, padded], 0, 0.034)).toBe(false);
  expect(prefers([good, padded], 1, 0)).toBe(false);
  const flipped = Array.from({ length: 4000 }, (_, i) => prefers([good, padded], 0.25, 0, i)).filter((first) => !first).length;
  expect(flipped / 4000).toBeGreaterThan(0.23);
  expect(flipped / 4000).toBeLessThan(0.27);
  const ties = Array.from({ length: 4000 }, (_, i) => prefers([good, good], 0, 0, i)).filter((first) => first).length;
  expect(Math.abs(ties / 4000 - 0.5)).toBeLessThan(0.02);
});

test("a pair holds the preferred answer as chosen; equal answers make none", () => {
  const task = { ...helpful.tasks("train").at(0), prompt: promptOf(one), data: JSON.parse(JSON.stringify(one)) as Request & object };
  const member = (content: string) => ({ trajectory: { messages: [...task.prompt, { role: "assistant", content }] } });
  const group = (...answers: string[]) => ({ task, members: answers.map(member) }) as unknown as Parameters<typeof labelled>[0];
  const options = { noise: 0, perWord: 0, random: draw(rng(0, "pair")) };
  const [pair] = labelled(group("All is well.", "The price is 45."), options);
  expect([pair!.chosen[0]!.content, pair!.rejected[0]!.content]).toEqual(["The price is 45.", "All is well."]);
  expect(labelled(group("All is well.", "All is well."), options)).toEqual([]);
});

test("scripted answers leave something to learn and something to gain", () => {
  const scores = scriptedDialogues(1000).map(({ messages }, i) => {
    const task = helpful.tasks("train").at(helpful.tasks("train").size - 1 - i);
    return gold(messages.at(-1)!.content, requestOf(task)).score;
  });
  const mean = scores.reduce((a, b) => a + b, 0) / scores.length;
  expect(mean).toBeGreaterThan(0.3);
  expect(mean).toBeLessThan(0.7);
});

test("stops two evaluations after the best by a sign, and takes that one", () => {
  const curve = (...others: number[]) => others.map((value, i) => ({ step: 10 * i, others: value, wins: 1 - value }));
  expect(stopOf(curve(0, 1, 2, 1.9, 1.8, 3), "others")).toEqual({ taken: 20, known: 40 });
  expect(stopOf(curve(0, 1, 0.9, 2, 3), "others")).toEqual({ taken: 40, known: 40 });
  expect(stopOf(curve(0, 1, 0.9, 2, 3), "wins")).toEqual({ taken: 0, known: 20 });
});

const few = { steps: 3, evalEvery: 3, evalTasks: 4 };
const tiny: Setup = {
  ...small,
  dialogues: 8,
  prompts: 8,
  heldoutPairs: 2,
  maxTokens: 8,
  sft: { rollout: { tasksPerStep: 2 }, train: { steps: 2 } },
  reward: { rollout: { tasksPerStep: 2 }, train: { steps: 2, evalEvery: 2 } },
  policy: { rollout: { tasksPerStep: 2 }, train: { ...few, checkpointEvery: 3 } },
  dpo: { rollout: { tasksPerStep: 2 }, train: { ...few, checkpointEvery: 3 } },
};

test("every stage with a few steps: one model under all runs, gold apart from what is trained on", { timeout: 600_000 }, async () => {
  const folder = await temporaryFolder();
  const place: Place = { base: "models/desk-1m", folder, setup: tiny, observer: {}, onRun: () => undefined };
  const start = await foundation(place);
  expect(readFileSync(start.pairs, "utf8").trim().split("\n").map((line) => JSON.parse(line) as unknown)).toEqual(
    await sampledPairs(start.model, { ...annotator, count: 8, maxTokens: 8 }),
  );
  const alone = await single(place, start, { name: "no-kl", kl: 0 });
  const runs = [join(folder, "helpful-policy"), alone, await direct(place, start, { name: "dpo", beta: 0.1 })];
  const curves = await curvesOf(runs, start);
  for (const [i, curve] of curves.entries()) {
    expect(curve.map(({ step }) => step)).toEqual([0, 3]);
    // Nothing was trained at step 0: every run gives the fine-tuned model's answers, at no distance from it.
    expect(curve[0]).toEqual(curves[0]![0]);
    expect(Math.abs(curve[0]!.kl)).toBeLessThan(1e-4);
    expect(curve[0]!.wins).toBe(0.5);
    expect(existsSync(join(runs[i]!, "checkpoints", "step-000003"))).toBe(true);
  }
  const size = { tasks: 6, samples: 4, rewardSteps: 1, policySteps: 1, perStep: 1, groupSize: 2, evalTasks: 6 };
  const compared = await verified(place, size);
  expect(compared.pairs).toBeGreaterThan(0);
  expect(compared.start.answers).toBe(6);
  expect(compared.start.accuracy).toBeGreaterThanOrEqual(0.5);
  const named = { "no KL": curves[1]!, "cautious ensemble": curves[0]!, DPO: curves[2]! };
  const stops = { others: stopOf(curves[1]!, "others"), labels: stopOf(curves[1]!, "wins") };
  const text = tables({ curves: named, stops, verified: compared, seconds: { all: 1 } });
  expect(text).toContain(`| start | 0 | ${curves[0]![0]!.first.toFixed(2)} |`);
});
