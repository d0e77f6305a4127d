/** What is gathered before credit is given, groups that are replaced, and an algorithm of one's own. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { loraTargets } from "../../src/compute/models/lora.ts";
import { openPolicy, type OpenedPolicy } from "../../src/compute/policy/open.ts";
import { finite, scored } from "../../src/errors.ts";
import { broadcastCredit } from "../../src/loop/advantage/broadcast.ts";
import { policyLoss } from "../../src/loop/loss/policy-loss.ts";
import { clippedSurrogate } from "../../src/loop/loss/surrogate.ts";
import { valueLoss } from "../../src/loop/loss/value.ts";
import { gatherEvidence } from "../../src/train/evidence.ts";
import { readRun, readTrajectories } from "../../src/train/record/read-run.ts";
import { train } from "../../src/train/train.ts";
import type { Algorithm, Critic, EpisodeEnd, Group, Row, Trajectory } from "../../src/types.ts";
import { context, memberOf, QUESTION, sampled, trajectoryOf } from "../fakes/credit.ts";
import { trainRow } from "../fakes/engines.ts";
import { difference } from "../fakes/golden.ts";
import { letters, lettersConfig } from "../fakes/letters.ts";
import { temporaryFolder, writeTinyModel } from "../fakes/model-folders.ts";

const wide = { max_position_embeddings: 256 };
const lora = { rank: 4, alpha: 8, targets: loraTargets };

async function opened(): Promise<OpenedPolicy> {
  const model = await writeTinyModel(join(await temporaryFolder(), "model"), "llama", wide);
  const policy = await openPolicy(model, { train: { type: "lora", lora }, reference: true });
  policy.engine.addAdapter("critic", { from: "base", rank: 4, alpha: 8, scalarHead: true, trained: true, seed: 5 });
  await policy.engine.publish();
  return policy;
}

const turns: Row = { spans: [context(9, 8), sampled([3, 4], [-1, -2]), context(6, 7), sampled([5], [-3])] };
const bare: Row = { spans: [context(1, 2, 3)] };
const answer: Row = { spans: [context(2), sampled([7, 7], [-1, -1])] };
const whole = (end: EpisodeEnd, id: string): Trajectory => trajectoryOf([turns, answer, bare], end, id);
const groupOf = (...members: readonly Group["members"][number][]): Group => ({ task: QUESTION, members });

test("log-probs and values stand where their tokens stand; what was cut goes on being worth something", async () => {
  await using policy = await opened();
  const { engine } = policy;
  const [done, cut, ungraded] = [whole({ type: "done" }, "a"), whole({ type: "length" }, "b"), whole({ type: "done" }, "c")];
  const groups = [groupOf(memberOf(done, 1), memberOf(ungraded, "no grade")), groupOf(memberOf(cut, 0))];
  const critic: Critic = { loss: valueLoss(0.2), learningRate: 1, warmupSteps: 0, epochsPerBatch: 1 };
  const evidence = await gatherEvidence(groups, { policy, algorithm: { name: "own", needs: ["reference", "trainer"], critic } });
  const [first, second] = [trainRow([9, 8, 3, 4, 6, 7, 5], [2, 3, 6]), trainRow([2, 7, 7], [1, 2])];
  const wanted = await engine.logprobs([first, second]);
  for (const trajectory of [done, cut]) {
    const found = evidence.of(trajectory);
    expect(found.trainer!.map(({ length }) => length)).toEqual([3, 2, 0]);
    for (const part of [found.trainer!, found.reference!]) {
      expect(difference(part[0]!, wanted[0]!).max).toBeLessThan(1e-5);
      expect(difference(part[1]!, wanted[1]!).max).toBeLessThan(1e-5);
    }
    expect(found.values!.map(({ length }) => length)).toEqual([3, 2, 0]);
  }
  const values = await engine.values([trainRow([2, 7, 7], [1, 2, 3])], { adapter: "critic" });
  expect(evidence.of(done).valueAfter).toBe(0);
  expect(evidence.of(cut).valueAfter).toBeCloseTo(values[0]![2]!, 5);
  expect(evidence.of(cut).values![1]![1]).toBeCloseTo(values[0]![1]!, 5);
  expect(evidence.of(ungraded)).toEqual({});
  // The trainer's log-probs stand for the policy, and a policy that was not trained is its own reference.
  expect(evidence.metrics["kl/completion"]).toBeCloseTo(0, 5);
  expect(evidence.metrics["kl/completionK1"]).toBeCloseTo(0, 5);
  const plain = await gatherEvidence(groups, { policy, algorithm: { name: "own", needs: ["reference"] } });
  const gaps = [-1, -2, -3, -1, -1].map((logprob, i) => logprob - [...wanted[0]!, ...wanted[1]!][i]!);
  expect(plain.metrics["kl/completionK1"]).toBeCloseTo(gaps.reduce((a, b) => a + b, 0) / 5, 3);
  // One completion, so the mean over tokens is the mean over completions; k3 = exp(-gap) - 1 + gap.
  expect(plain.metrics["kl/completion"]).toBeCloseTo(gaps.reduce((sum, gap) => sum + Math.exp(-gap) - 1 + gap, 0) / 5, 3);
  expect(plain.metrics["kl/completion"]).toBeGreaterThanOrEqual(0);
});

test("turn scores: one number a turn, or the fault is named", async () => {
  await using policy = await opened();
  const turn = { row: 0, span: 1, message: { role: "assistant", content: "" }, parse: "answer", replies: [] } as const;
  const trajectory = { ...whole({ type: "done" }, "a"), turns: [turn, turn] };
  const algorithm = { name: "own", needs: ["turnScores"] } as const;
  const gather = (scores: readonly number[]) =>
    gatherEvidence([groupOf(memberOf(trajectory, 1))], { policy, algorithm, turnScorer: () => Promise.resolve([scores]) });
  expect((await gather([0.25, 0.5])).of(trajectory).turnScores).toEqual([0.25, 0.5]);
  await expect(gather([0.25])).rejects.toThrow("turn scores of a: expected 2 finite numbers, got [0.25]");
  await expect(gather([0.25, NaN])).rejects.toThrow("expected 2 finite numbers");
  await expect(gatherEvidence([groupOf(memberOf(trajectory, 1))], { policy, algorithm })).rejects.toThrow(
    "turnScorer: expected a scorer of turns, which own needs, got none; hand one to train",
  );
});

/** Reward less the greedy answer's; the loss reads a coefficient that a controller halves at every step. */
const own: Algorithm = {
  kind: "sampled",
  name: "own",
  paper: "none",
  groupSize: 2,
  settings: { strength: 3 },
  learningRate: { full: 1e-3, lora: 1e-3 },
  needs: ["greedy"],
  reduction: "token-mean",
  maskTruncated: false,
  epochsPerBatch: 1,
  resampleRounds: 2,
  credit: (groups, { coefficients }) =>
    groups.map(({ members, greedy }) =>
      members.map(({ trajectory, verdict }) => {
        const [score, most] = [verdict, greedy!.verdict].map((each) => (each.type === "scored" ? each.score : finite(0, "score")));
        return broadcastCredit(trajectory, coefficients["half"]! * (score! - most!));
      }),
    ),
  loss: policyLoss({ surrogate: clippedSurrogate({ low: 0.2, high: 0.2 }) }),
  controller: { initial: { half: 1 }, next: ({ half }) => ({ half: half! / 2 }) },
};

test("an algorithm of one's own: greedy answers, replaced groups, coefficients; resumed bitwise", { timeout: 120_000 }, async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  // Half of all tasks pay the same for every answer.
  const env = letters(Array.from({ length: 10 }, (_, i) => `t${2 * i}`));
  const input = { ...lettersConfig(model, { train: { steps: 4, checkpointEvery: 2 } }), algo: { name: "own" } };
  const stop = {
    onStep: ({ step }: { step: number }) => {
      if (step === 3) throw new Error("pulled the plug");
    },
  };
  const options = { env, algorithm: own };
  await expect(train(input, { ...options, runsFolder: join(runsFolder, "stopped"), observer: stop })).rejects.toThrow("pulled");
  const resumed = await train(input, { ...options, runsFolder: join(runsFolder, "stopped"), resume: true });
  const whole = await train(input, { ...options, runsFolder: join(runsFolder, "whole") });
  const [left, right] = [await readRun(resumed.folder), await readRun(whole.folder)];
  expect(left.ledger).toEqual(right.ledger);
  expect(right.metrics.map((row) => row["coefficient/half"])).toEqual([1, 0.5, 0.25, 0.125]);
  expect(right.metrics.some((row) => row["batch/replaced"]! > 0)).toBe(true);
  for (const entry of right.ledger) {
    const row = right.metrics.find(({ step }) => step === entry.step)!;
    const rollouts = await readTrajectories(whole.folder, "step", entry.step);
    const greedy = rollouts.filter(({ scored: { trajectory } }) => trajectory.id.startsWith("greedy-"));
    const trained = rollouts.filter(({ credit }) => credit !== null);
    const replaced = row["batch/replaced"]!;
    // 4 groups of 2 are trained on; beside them the greedy answers, and whatever was replaced.
    expect([trained.length, greedy.length, rollouts.length, entry.tasks.length]).toEqual([8, 4, 12 + 2 * replaced, 4 + replaced]);
    const spans = greedy.flatMap(({ scored: { trajectory } }) => trajectory.rows[0]!.spans);
    expect(spans.flatMap((span) => (span.kind === "sampled" ? [span.temperature] : []))).toEqual([0, 0, 0, 0]);
    expect(new Set(entry.rollouts).size).toBe(entry.rollouts.length);
    const dead = trained.filter(({ scored: { trajectory } }) => Number(trajectory.task.id.slice(1)) % 2 === 0).length;
    expect(dead).toBeLessThan(8);
  }
  const { config } = right;
  expect(config["algo"]).toEqual({ name: "own", strength: 3 });
  const other = { ...options, algorithm: { ...own, settings: { strength: 4 } }, runsFolder: join(runsFolder, "whole"), resume: true };
  await expect(train(input, other)).rejects.toThrow("another: algo.strength");
  await expect(train({ ...input, algo: { name: "grpo" } }, { ...options, runsFolder })).rejects.toThrow(
    'algo.name: expected "own", got "grpo"; the algorithm that was handed in',
  );
});

test("a reward that needs the engine grades what is trained on, and the environment's own evaluates", async () => {
  const runsFolder = await temporaryFolder();
  const model = await writeTinyModel(join(runsFolder, "model"), "llama", wide);
  const input = { ...lettersConfig(model, { train: { steps: 1, evalEvery: 1, evalTasks: 2 } }), algo: { name: "grpo", groupSize: 2 } };
  const attach = ({ engine }: OpenedPolicy) => Promise.resolve({ reward: () => scored(engine.info.adapters.length + 5, "constant") });
  const { folder, evaluation } = await train(input, { env: letters(), runsFolder, attach });
  const { metrics } = await readRun(folder);
  expect(metrics.find((row) => row["reward/mean"] !== undefined)!["reward/mean"]).toBe(7);
  expect(evaluation!.score).toBeLessThan(1);
});
