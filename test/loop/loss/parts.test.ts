/** Every part of a policy loss: closed forms, finite differences and limits. */
import { afterAll, expect, test } from "vitest";
import { offPolicyMask, samplerCorrection, type Correction } from "../../../src/loop/loss/correction.ts";
import { covariancePenalty } from "../../../src/loop/loss/covariance.ts";
import { entropyBonus } from "../../../src/loop/loss/entropy.ts";
import { klToReference } from "../../../src/loop/loss/kl.ts";
import { policyLoss } from "../../../src/loop/loss/policy-loss.ts";
import { clippedSurrogate, clippedWeight, divergenceMasked, policyGradient } from "../../../src/loop/loss/surrogate.ts";
import type { Loss } from "../../../src/types.ts";
import { closePrograms, differences, lossOf, runLoss, termLoss, type Tokens } from "../../fakes/losses.ts";

afterAll(closePrograms);

const near = (found: readonly number[], right: readonly number[], digits = 5): void => {
  expect(found).toHaveLength(right.length);
  right.forEach((value, t) => expect(found[t], `token ${t}`).toBeCloseTo(value, digits));
};
const ones = (count: number): number[] => Array.from({ length: count }, () => 1);
const ln = Math.log;

/** Tokens with these ratios against log-prob -1, weight 1 each unless said. */
function withRatios(ratios: readonly number[], advantage: readonly number[], more: Partial<Tokens> = {}): Tokens {
  const old = ratios.map(() => -1);
  const fields = { old, advantage, weight: ones(ratios.length), ...more.fields };
  return { ...more, logprobs: ratios.map((ratio) => -1 + ln(ratio)), fields };
}

test("the plain policy gradient is -A log pi, and its gradient -A", async () => {
  const fields = { old: [-1, -3], advantage: [2, -1], weight: [0.5, 0.5] };
  const { loss, gradient } = await runLoss(lossOf(policyGradient), { logprobs: [-1, -3], fields });
  expect(loss).toBeCloseTo(-0.5, 6); // 0.5 * 2 * 1 - 0.5 * 1 * 3
  near(gradient, [-1, 0.5]);
});

test("the ratio of a row is the geometric mean of its tokens', each row its own", async () => {
  // Row 0: sqrt(1.1 * 1.3) = 1.195826, inside the clip. Row 1: 0.5 with A = -1 is held at 0.8 and has no gradient.
  const tokens = withRatios([1.1, 1.3, 0.5], [1, 1, -1], { row: [0, 0, 1] });
  const { loss, gradient, metrics } = await runLoss(lossOf(clippedSurrogate({ level: "row-mean", low: 0.2, high: 0.2 })), tokens);
  expect(loss).toBeCloseTo(-2 * 1.195826 + 0.8, 5);
  near(gradient, [-1.195826, -1.195826, 0]);
  expect(metrics["clipFraction"]).toBeCloseTo(1 / 3, 6);
});

test("the product of a row's ratios: all its tokens share the gradient of the whole", async () => {
  // 1.1 * 1.05 = 1.155 inside 1.2; weights 1/4 for each token of two rows of two: loss -(2/4) 1.155 A, gradient the same for each.
  const tokens = withRatios([1.1, 1.05, 1.5, 1.5], [1, 1, 1, 1], { row: [0, 0, 1, 1], fields: { weight: [0.25, 0.25, 0.25, 0.25] } });
  const { loss, gradient } = await runLoss(lossOf(clippedSurrogate({ level: "row-product", low: 0.2, high: 0.2 })), tokens);
  expect(loss).toBeCloseTo(-0.5 * 1.155 - 0.5 * 1.2, 5);
  near(gradient, [-0.5775, -0.5775, 0, 0]);
});

test("a product that would overflow is held: no NaN, and the clip decides", async () => {
  const long = Array.from({ length: 200 }, () => 3);
  const tokens = withRatios(long, ones(200));
  const { loss, gradient } = await runLoss(lossOf(clippedSurrogate({ level: "row-product", low: 0.2, high: 0.2 })), tokens);
  expect(loss).toBeCloseTo(-1.2 * 200, 3);
  expect(gradient.every((value) => value === 0)).toBe(true);
});

test("dual clip bounds the loss of a negative advantage by -c A, and leaves positive ones alone", async () => {
  // A = -1: ratio 4 costs 3 and has no gradient, ratio 2 costs 2; A = 1: ratio 4 is held at 1.2.
  const tokens = withRatios([4, 2, 4], [-1, -1, 1]);
  const { loss, gradient, metrics } = await runLoss(lossOf(clippedSurrogate({ low: 0.2, high: 0.2, dual: 3 })), tokens);
  expect(loss).toBeCloseTo(3 + 2 - 1.2, 5);
  near(gradient, [0, 2, 0]);
  expect(metrics["clipFraction"]).toBeCloseTo(2 / 3, 6);
  near((await runLoss(lossOf(clippedSurrogate({ low: 0.2, high: 0.2 })), tokens)).gradient, [4, 2, 0]);
});

test("a clipped weight bounds a token's gradient and never takes it away", async () => {
  // Weights 5 (of 6), 0.5 and 2; gradient -weight A.
  const { gradient, metrics } = await runLoss(lossOf(clippedWeight({ low: 1, high: 4 })), withRatios([6, 0.5, 2], [1, -1, 2]));
  near(gradient, [-5, 0.5, -4]);
  expect(metrics["clipFraction"]).toBeCloseTo(1 / 3, 6);
  near((await runLoss(lossOf(clippedWeight({ low: 0.2, high: 0.2 })), withRatios([0.5], [1]))).gradient, [-0.8]);
});

test("a token is dropped for how far its probability moved, not for its ratio", async () => {
  // From 0.1 to 0.35 with A > 0: dropped. From 0.001 to 0.003: ratio 3, kept. From 0.5 to 0.2: dropped with A < 0, kept with A > 0.
  const now = [0.35, 0.003, 0.2, 0.2];
  const before = [0.1, 0.001, 0.5, 0.5];
  const fields = { old: before.map(ln), advantage: [1, 1, -1, 1], weight: ones(4) };
  const { gradient, metrics } = await runLoss(lossOf(divergenceMasked({ low: 0.2, high: 0.2 })), { logprobs: now.map(ln), fields });
  near(gradient, [0, -3, 0, -0.4]);
  expect(metrics["clipFraction"]).toBeCloseTo(0.5, 6);
});

test.each<[Correction, readonly number[]]>([
  ["token-truncate", [1.5, 0.5, 1.9, 2]],
  ["token-mask", [1.5, 0.5, 1.9, 0]],
  // Products: row 0 1.5 * 0.5 = 0.75, row 1 1.9 * 3 = 5.7.
  ["sequence-truncate", [0.75, 0.75, 2, 2]],
  ["sequence-mask", [0.75, 0.75, 0, 0]],
])("%s: samples weighted by the trainer's probability over the sampler's, cap 2", async (correction, right) => {
  const sampler = [1.5, 0.5, 1.9, 3].map((weight) => -1 - ln(weight));
  const tokens = withRatios(ones(4), ones(4), { row: [0, 0, 1, 1], fields: { sampler } });
  const { gradient, metrics } = await runLoss(lossOf(policyGradient, { weights: [samplerCorrection(correction, 2)] }), tokens);
  near(
    gradient,
    right.map((weight) => -weight),
  );
  expect(metrics["correction/weight"]).toBeCloseTo(right.reduce((a, b) => a + b, 0) / 4, 5);
  expect(metrics["correction/capped"]).toBeCloseTo(correction.startsWith("token") ? 0.25 : 0.5, 6);
});

test("a correction weighs the surrogate alone, not the terms beside it", async () => {
  const fields = { sampler: [-1 - ln(0.5)], reference: [-2] };
  const parts = { surrogate: policyGradient, weights: [samplerCorrection("token-truncate", 2)], terms: [klToReference(1, "k2")] };
  // -0.5 A + d(d^2 / 2) with d = 1.
  near((await runLoss(policyLoss(parts), withRatios([1], [1], { fields }))).gradient, [-0.5 + 1]);
});

test("a row that drifted teaches with positive advantages only", async () => {
  // Row 0: mean of old - log pi = (ln 2 + 0) / 2 = 0.3466; row 1: 0. Bound 0.3.
  const tokens = withRatios([0.5, 1, 1, 1], [-1, 1, -1, 1], { row: [0, 0, 1, 1] });
  const { gradient, metrics } = await runLoss(lossOf(policyGradient, { weights: [offPolicyMask(0.3, "old")] }), tokens);
  near(gradient, [0, -1, 1, -1]);
  expect(metrics["offPolicyMasked"]).toBeCloseTo(0.25, 6);
  near((await runLoss(lossOf(policyGradient, { weights: [offPolicyMask(0.4, "old")] }), tokens)).gradient, [1, -1, 1, -1]);
});

test("the entropy bonus rewards entropy, by a fixed or a scheduled coefficient", async () => {
  const tokens = { logprobs: [-1, -2], entropy: [0.5, 1.5], fields: { old: [-1, -2], weight: [0.5, 0.5] } };
  const fixed = await runLoss(termLoss(entropyBonus(0.1)), tokens);
  expect(fixed.loss).toBeCloseTo(-0.1, 6);
  near(fixed.entropyGradient, [-0.05, -0.05]);
  expect(fixed.metrics["entropy"]).toBeCloseTo(1, 6);
  const scheduled = await runLoss(termLoss(entropyBonus("scheduled")), { ...tokens, scalars: { entropyCoef: 0.3 } });
  near(scheduled.entropyGradient, [-0.15, -0.15]);
});

test("KL-Cov holds back tokens whose log-prob and advantage are high together, centred in their own task", async () => {
  // Unit 0: log-probs centred +-1, advantages centred +-2: covariance 2 each. Unit 1: +1 with -1: covariance -1. Bound 1.5.
  const logprobs = [-1, -3, -1, -3];
  const fields = { old: [-1.5, -3, -1.5, -3], advantage: [2, -2, -1, 1], weight: ones(4) };
  const { loss, gradient, metrics } = await runLoss(termLoss(covariancePenalty(2, 1.5)), { logprobs, fields, unit: [0, 0, 1, 1] });
  // 2 (exp(0.5) - 1 - 0.5) and its slope 2 (exp(0.5) - 1); the second token has not moved.
  expect(loss).toBeCloseTo(2 * 0.148721, 5);
  near(gradient, [2 * 0.648721, 0, 0, 0]);
  expect(metrics["klCovFraction"]).toBeCloseTo(0.5, 6);
});

const sequenceMean = [0.25, 0.25, 1 / 6, 1 / 6, 1 / 6];
const points: Tokens = {
  logprobs: [-1, -2.2, -0.7, -3.1, -1.4],
  entropy: [1, 0.3, 2, 0.7, 1.1],
  fields: {
    old: [-1.1, -2, -1.2, -3, -1.5],
    reference: [-0.8, -2.5, -0.9, -2.7, -1.4],
    sampler: [-1, -2.1, -1.3, -2.9, -1.6],
    advantage: [0.8, 0.8, -1.3, -1.3, -1.3],
    weight: sequenceMean,
  },
  row: [0, 0, 1, 1, 1],
};

test.each<[string, Loss]>([
  ["policy gradient", lossOf(policyGradient)],
  ["clipped, token", lossOf(clippedSurrogate({ low: 0.15, high: 0.15 }))],
  ["clipped, token, dual", lossOf(clippedSurrogate({ low: 0.15, high: 0.15, dual: 1.4 }))],
  ["clipped, row mean", lossOf(clippedSurrogate({ level: "row-mean", low: 0.5, high: 0.5 }))],
  ["clipped, row product", lossOf(clippedSurrogate({ level: "row-product", low: 0.9, high: 0.9 }))],
  ["divergence", lossOf(divergenceMasked({ low: 0.05, high: 0.15 }))],
  ["k1", termLoss(klToReference(0.5, "k1"))],
  ["k2", termLoss(klToReference(0.5, "k2"))],
  ["k3", termLoss(klToReference(0.5, "k3"))],
  ["KL-Cov", termLoss(covariancePenalty(0.5, 0.2))],
  ["corrected, with terms", lossOf(policyGradient, { weights: [samplerCorrection("token-truncate", 2)], terms: [entropyBonus(0.1)] })],
])("%s: the gradient is the slope of the loss", async (_, loss) => {
  const { gradient, entropyGradient } = await runLoss(loss, points);
  expect(gradient.some((value) => Math.abs(value) > 1e-3)).toBe(true);
  near(gradient, await differences(loss, points), 3);
  near(entropyGradient, await differences(loss, points, "entropy"), 3);
});

test("with the clip out of reach every surrogate is the policy gradient at the sampler's weights", async () => {
  const fresh = { ...points, fields: { ...points.fields, old: points.logprobs } };
  const { gradient: plain } = await runLoss(lossOf(policyGradient), fresh);
  for (const surrogate of [
    clippedSurrogate({ low: 1, high: 1e6 }),
    clippedSurrogate({ low: 1, high: 1e6, dual: 1e6 }),
    clippedSurrogate({ level: "row-mean", low: 1, high: 1e6 }),
    clippedWeight({ low: 1, high: 1e6 }),
    divergenceMasked({ low: 1, high: 1 }),
  ])
    near((await runLoss(lossOf(surrogate), fresh)).gradient, plain, 6);
  // The product's is that of the summed log-prob: each token has the weight of the whole row, 1/2.
  const { gradient } = await runLoss(lossOf(clippedSurrogate({ level: "row-product", low: 1, high: 1e6 })), fresh);
  near(gradient, [-0.4, -0.4, 0.65, 0.65, 0.65], 6);
});

test("off-policy the unclipped surrogates are r times the policy gradient, the weight of CISPO with or without its gradient", async () => {
  const ratios = points.logprobs.map((value, t) => Math.exp(value - points.fields["old"]![t]!));
  const right = ratios.map((ratio, t) => -ratio * points.fields["advantage"]![t]! * sequenceMean[t]!);
  for (const surrogate of [
    clippedSurrogate({ low: 1, high: 1e6 }),
    clippedWeight({ low: 1, high: 1e6 }),
    divergenceMasked({ low: 1, high: 1 }),
  ])
    near((await runLoss(lossOf(surrogate), points)).gradient, right);
});

test("a reported KL without a coefficient has no gradient", async () => {
  const { loss, gradient, metrics } = await runLoss(termLoss(klToReference(0, "k1")), points);
  expect([loss, ...gradient].every((value) => value === 0)).toBe(true);
  const gaps = [-0.2, 0.3, 0.2, -0.4, 0];
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  expect(metrics["kl/referenceK1"]).toBeCloseTo(mean(gaps), 5);
  expect(metrics["kl/reference"]).toBeCloseTo(mean(gaps.map((gap) => Math.exp(-gap) - 1 + gap)), 5);
});
