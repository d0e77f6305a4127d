/** Settings: each changes what is computed, and combinations that make no sense are refused by both names. */
import { afterAll, expect, test } from "vitest";
import { algorithms } from "../../src/algo/registry.ts";
import * as algo from "../../src/algo/index.ts";
import { ConfigError } from "../../src/errors.ts";
import type { Algorithm, Credit, CreditContext, Group, Json, JsonObject, Scored } from "../../src/types.ts";
import { context, memberOf, QUESTION, sampled, trajectoryOf } from "../fakes/credit.ts";
import { turnsOf } from "../fakes/turns.ts";
import { closePrograms, runLoss, type Tokens } from "../fakes/losses.ts";

afterAll(closePrograms);

type Factory = (options?: object) => Algorithm;
const critics = ["ppo", "turn-ppo"];
/** Judged turn by turn, so they need episodes of several turns that pass through the same states. */
const byTurn = ["gigpo", "process-grpo"];
const factories = algorithms.flatMap((factory) => {
  const make = factory as unknown as Factory;
  return make().kind === "sampled" && !critics.includes(factory.id) ? [{ name: factory.id, make, keys: Object.keys(make().settings) }] : [];
});

/** Another value of each setting, and what else must be on for it to have an effect. */
const changed: Readonly<Record<string, { readonly to: Json; readonly base?: JsonObject }>> = {
  groupSize: { to: 5 },
  loss: { to: "ipo" },
  beta: { to: 0.5 },
  clipLow: { to: 0.001 },
  clipHigh: { to: 0.001 },
  dualClip: { to: 1.05 },
  klCoef: { to: 0.5 },
  klEstimator: { to: "k1", base: { klCoef: 0.5 } },
  klRewardCoef: { to: 0.5 },
  reduction: { to: "sequence-mean" },
  scale: { to: "none" },
  baseline: { to: "group-length-weighted" },
  "process-grpo baseline": { to: "turn" },
  stepReward: { to: "difference" },
  outcomeWeight: { to: 1 },
  stepWeight: { to: 0.5 },
  state: { to: "history" },
  gamma: { to: 0.5 },
  maskTruncated: { to: true },
  epochsPerBatch: { to: 3 },
  resampleRounds: { to: 0 },
  overlongBuffer: { to: 0.9 },
  overlongPenalty: { to: 3 },
  divergenceLow: { to: 0.001 },
  divergenceHigh: { to: 0.001 },
  entropyCoef: { to: 0.1 },
  entropyFloor: { to: 0.7, base: { entropyCoef: 0.1 } },
  offPolicyDelta: { to: 0.05 },
  correction: { to: "token-mask" },
  correctionCap: { to: 1.05, base: { correction: "token-truncate" } },
  clipCovFraction: { to: 0.3, base: { covLow: 0.001 } },
  klCovCoef: { to: 0.5, base: { covLow: 0.001 } },
  covLow: { to: 0.001, base: { clipCovFraction: 0.5 } },
  covHigh: { to: 1.2, base: { clipCovFraction: 0.5 } },
  maxKl: { to: 0.1 },
  damping: { to: 1 },
  iterations: { to: 3 },
  backtracks: { to: 3 },
};

const tokens: Tokens = {
  logprobs: [-1, -2.2, -0.7, -3.1, -1.4, -0.2, -1],
  entropy: [1, 0.3, 2, 0.7, 1.1, 0.4, 0.9],
  fields: {
    old: [-1.4, -2, -0.5, -3, -1.1, -0.5, -1.4],
    reference: [-0.8, -2.5, -0.9, -2.7, -1.4, -0.3, -1],
    sampler: [-1.6, -2.1, -1.3, -2.6, -1.2, -0.4, -1.3],
    advantage: [2, 2, -3, -3, -3, 1, -3],
    weight: [0.1, 0.15, 0.2, 0.1, 0.25, 0.1, 0.1],
  },
  row: [0, 0, 1, 1, 1, 2, 3],
  scalars: { entropyCoef: 0.03 },
};

const lengths = [3, 9, 60];
const groups = [0, 1].map((p): Group => {
  const members = lengths.map((length, i) => {
    const logprobs = Array.from({ length }, (_, t) => -0.1 - ((t * 7 + i * 3 + p) % 11) * 0.5);
    const ids = logprobs.map((_, t) => t + 3);
    return memberOf(trajectoryOf([{ spans: [context(1, 2), sampled(ids, logprobs)] }], { type: "done" }, `${p}-${i}`), [1, 0, 0.4][i]! + p);
  });
  return { task: QUESTION, members, greedy: memberOf(members[0]!.trajectory, 0.3) };
});
const replies = [["s", "t", "s"], ["u", "s"], ["s", "u", "t", "s"]];
/** The same with log-probs that differ, which covariances are about. */
function varied({ trajectory, ...rest }: Scored, seed: number): Scored {
  const rows = trajectory.rows.map((row) => ({
    spans: row.spans.map((span, s) =>
      span.kind === "context" ? span : { ...span, logprobs: span.ids.map((_, t) => -0.1 - ((t * 7 + s * 5 + seed * 3) % 11) * 0.5) },
    ),
  }));
  return { ...rest, trajectory: { ...trajectory, rows } };
}
const turnGroups = [0, 1].map((p): Group => {
  const long = Array.from({ length: 40 }, (_, t) => ({ tokens: 2 + (t % 3), reply: "r" }));
  const walks = replies.map((names, i) => {
    const steps = [...names.map((reply) => ({ tokens: 2, reply })), {}];
    return varied(memberOf(turnsOf(steps, undefined, `${p}-${i}`), i), i + p);
  });
  return { task: QUESTION, members: [...walks, varied(memberOf(turnsOf(long, { type: "turnLimit" }, `${p}-cut`), 0.4), 5)] };
});
const told: CreditContext = {
  limits: { maxTokens: 64, maxTurns: 1 },
  coefficients: {},
  evidence: ({ rows, turns }) => ({
    reference: rows.map(({ spans }) => Float32Array.from(spans[1]!.ids, (id) => -1 - (id % 3))),
    turnScores: turns.map((_, t) => ((t * 5 + turns.length) % 7) / 7),
  }),
};

/** Everything that the training loop asks of an algorithm. */
async function behaviour(algorithm: Algorithm): Promise<string> {
  const { groupSize, reduction, maskTruncated, epochsPerBatch, resampleRounds, needs, controller, trustRegion } = algorithm;
  const coefficients = controller?.next(controller.initial, { metrics: { entropy: 0.5 }, completions: 4 });
  const credits = algorithm
    .credit(byTurn.includes(algorithm.name) ? turnGroups : groups, told)
    .flat()
    .map((credit: Credit | null) => credit?.advantages.map((row) => [...row]));
  const { loss, gradient, entropyGradient } = await runLoss(algorithm.loss, tokens);
  return JSON.stringify({
    groupSize,
    reduction,
    maskTruncated,
    epochsPerBatch,
    resampleRounds,
    needs,
    trustRegion,
    coefficients,
    credits,
    loss,
    gradient,
    entropyGradient,
  });
}

test.each(factories.flatMap(({ name, make, keys }) => keys.map((key) => ({ name, make, key }))))(
  "$name: $key has an effect",
  async ({ name, make, key }) => {
    const { to, base = {} } = changed[`${name} ${key}`] ?? changed[key]!;
    const off = key === "klCoef" || base["klCoef"] !== undefined ? ("klRewardCoef" in make().settings ? { klRewardCoef: 0 } : {}) : {};
    // covLow alone is refused as idle, so the comparison has the default there.
    const { covLow: _, ...before } = { ...base, ...off } as Record<string, Json>;
    expect(make().settings[key]).not.toEqual(to);
    expect(await behaviour(make({ ...base, ...off, [key]: to }))).not.toBe(await behaviour(make(before)));
  },
);

test.each<[string, Factory, object, string]>([
  [
    "KL twice",
    algo.reinforce,
    { klCoef: 0.1, klRewardCoef: 0.2 },
    "algo.klCoef and algo.klRewardCoef: KL counts twice, as 0.1 in the loss and 0.2 in the reward; set one to 0",
  ],
  [
    "KL twice, one by default",
    algo.reinforcePlusPlus,
    { klCoef: 0.1 },
    "algo.klCoef and algo.klRewardCoef: KL counts twice, as 0.1 in the loss and 0.01 in the reward; set one to 0",
  ],
  [
    "a group baseline of one",
    algo.reinforce,
    { groupSize: 1, baseline: "group-mean" },
    "algo.groupSize and algo.baseline: group-mean compares >= 2 samples, got 1; raise groupSize or use batch-mean",
  ],
  ["a dual clip inside the ratio 1", algo.grpo, { dualClip: 0.5 }, "algo.dualClip: expected above 1, or 0 to turn it off, got 0.5"],
  [
    "both covariance methods",
    algo.grpo,
    { clipCovFraction: 0.1, klCovCoef: 1 },
    "algo.clipCovFraction and algo.klCovCoef: both act on the same tokens, which Clip-Cov detaches; set one to 0",
  ],
  [
    "an empty range of covariances",
    algo.grpo,
    { clipCovFraction: 0.1, covLow: 5 },
    "algo.covLow and algo.covHigh: no covariance is between 5 and 5; lower covLow or raise covHigh",
  ],
  [
    "an estimator without its term",
    algo.grpo,
    { klEstimator: "k1" },
    "algo.klEstimator and algo.klCoef: klEstimator does nothing while klCoef is 0; set it, or leave klEstimator out",
  ],
  [
    "a floor without a bonus",
    algo.dapo,
    { entropyFloor: 0.3 },
    "algo.entropyFloor and algo.entropyCoef: entropyFloor does nothing while entropyCoef is 0; set it, or leave entropyFloor out",
  ],
  [
    "a cap without a correction",
    algo.rloo,
    { correctionCap: 3 },
    "algo.correctionCap and algo.correction: correctionCap does nothing while correction is none; set it, or leave correctionCap out",
  ],
  [
    "a penalty without a buffer",
    algo.dapo,
    { overlongBuffer: 0, overlongPenalty: 2 },
    "algo.overlongPenalty and algo.overlongBuffer: overlongPenalty does nothing while overlongBuffer is 0; " +
      "set it, or leave overlongPenalty out",
  ],
  [
    "a bound without its method",
    algo.gspo,
    { covLow: 2 },
    "algo.covLow and algo.clipCovFraction: covLow does nothing without Clip-Cov or KL-Cov; set clipCovFraction or klCovCoef",
  ],
])("%s is refused", (_, make, options, message) => {
  expect(() => make(options)).toThrow(new ConfigError(message));
});

test.each(factories.filter(({ name }) => !["reinforce", "remax", "reinforce-plus-plus"].includes(name)))(
  "$name: groups of one are refused",
  ({ make }) => {
    expect(() => make({ groupSize: 1 })).toThrow(
      "algo.groupSize: expected an integer of at least 2 and at most 4096, got 1; samples of one task; group baseline needs >= 2 samples",
    );
  },
);

test("where the baseline is not the group's, one sample of a task will do", () => {
  for (const make of [algo.reinforce, algo.remax, algo.reinforcePlusPlus]) expect(make({ groupSize: 1 }).groupSize).toBe(1);
});

test("needs, rows kept and the controller follow from the settings", () => {
  expect(algo.grpo()).toMatchObject({ needs: [], keepZero: false, epochsPerBatch: 1 });
  expect(algo.grpo({ klCoef: 0.1 })).toMatchObject({ needs: ["reference"], keepZero: true });
  expect(algo.rloo()).toMatchObject({ needs: ["reference"], keepZero: true });
  expect(algo.rloo({ klRewardCoef: 0 })).toMatchObject({ needs: [], keepZero: false });
  expect(algo.dapo({ correction: "token-truncate" })).toMatchObject({ needs: ["trainer"], keepZero: false });
  expect(algo.dapo({ entropyCoef: 0.1 }).controller).toBeUndefined();
  const { controller, keepZero } = algo.dapo({ entropyCoef: 0.1, entropyFloor: 0.5 });
  const after = (metrics: Record<string, number>) => controller!.next({ entropyCoef: 0.1 }, { metrics, completions: 8 });
  expect([controller!.initial, after({ entropy: 0.4 }), after({ entropy: 0.6 }), after({})]).toEqual([
    { entropyCoef: 0 },
    { entropyCoef: 0.1 },
    { entropyCoef: 0 },
    { entropyCoef: 0.1 },
  ]);
  expect(keepZero).toBe(true);
});

test("the off-policy mask reads the sampler's log-probs: the field of that name where the trainer's are the old ones", async () => {
  const drift = { ...tokens, fields: { ...tokens.fields, old: tokens.logprobs, sampler: tokens.logprobs.map((value) => value + 1) } };
  const masked = async (options: object): Promise<number> =>
    (await runLoss(algo.grpo({ offPolicyDelta: 0.5, ...options }).loss, drift)).metrics["offPolicyMasked"]!;
  expect(await masked({})).toBe(0);
  expect(await masked({ correction: "token-truncate" })).toBeCloseTo(4 / 7, 6); // the tokens with A = -3
});
