/** Losses and gradients of the algorithms against TRL's own loss code and PyTorch (scripts/golden/policy_losses.py). */
import { afterAll, expect, test } from "vitest";
import { cispo, dapo, dppo, drGrpo, grpo, gspo, reinforce, rloo } from "../../src/algo/index.ts";
import { offPolicyMask } from "../../src/loop/loss/correction.ts";
import { clippedSurrogate } from "../../src/loop/loss/surrogate.ts";
import type { Algorithm, Loss } from "../../src/types.ts";
import { difference, goldenJson } from "../fakes/golden.ts";
import { closePrograms, lossOf, runLoss, type Tokens } from "../fakes/losses.ts";

type PerToken = readonly (readonly number[])[];
interface Golden {
  readonly unit: readonly number[];
  readonly advantage: readonly number[];
  readonly lmax: number;
  readonly tokens: Readonly<Record<"logprobs" | "old" | "reference" | "sampler" | "entropy", PerToken>>;
  readonly cases: Readonly<Record<string, { readonly loss: number; readonly gradient: PerToken; readonly entropyGradient?: PerToken }>>;
}

afterAll(closePrograms);

const golden = goldenJson<Golden>("policy-losses.json");
const lengths = golden.tokens.old.map((row) => row.length);
const count = lengths.reduce((a, b) => a + b, 0);
const each = (of: (row: number) => number): number[] => lengths.flatMap((length, i) => Array.from({ length }, () => of(i)));

const weights: Readonly<Record<Algorithm["reduction"], readonly number[]>> = {
  "token-mean": each(() => 1 / count),
  "sequence-mean": each((i) => 1 / (lengths.length * lengths[i]!)),
  constant: each(() => 1 / (lengths.length * golden.lmax)),
};

function tokensWith(reduction: Algorithm["reduction"]): Tokens {
  const flat = Object.fromEntries(Object.entries(golden.tokens).map(([name, rows]) => [name, rows.flat()])) as Record<string, number[]>;
  const fields = { ...flat, advantage: each((i) => golden.advantage[i]!), weight: weights[reduction] };
  return { logprobs: flat["logprobs"]!, entropy: flat["entropy"]!, fields, row: each((i) => i), unit: each((i) => golden.unit[i]!) };
}

const plain = { clipLow: 0.2, clipHigh: 0.28 };
const corrected = (correction: "token-truncate" | "token-mask" | "sequence-truncate" | "sequence-mask"): Algorithm =>
  dapo({ correction, correctionCap: 1.3 });
const masked: Loss = lossOf(clippedSurrogate({ low: 0.2, high: 0.28 }), { weights: [offPolicyMask(0.05, "sampler")] });

/** The stored case, the algorithm, and a measure that is above 0 if the case reaches what it is about. */
const cases: readonly (readonly [string, Pick<Algorithm, "loss" | "reduction">, string])[] = [
  ["grpo-token-mean-kl", grpo({ ...plain, klCoef: 0.05 }), "clipFraction"],
  ["grpo-sequence-mean", grpo({ ...plain, reduction: "sequence-mean" }), "clipFraction"],
  ["dr-grpo", drGrpo(plain), "clipFraction"],
  ["gspo", gspo({ clipLow: 0.03, clipHigh: 0.04 }), "clipFraction"],
  ["cispo", cispo({ clipHigh: 0.2 }), "clipFraction"],
  ["rloo", rloo({ ...plain, klRewardCoef: 0 }), "clipFraction"],
  ["entropy", dapo({ entropyCoef: 0.02 }), "entropy"],
  ["off-policy-mask", { loss: masked, reduction: "token-mean" }, "offPolicyMasked"],
  ["correction-token-truncate", corrected("token-truncate"), "correction/capped"],
  ["correction-token-mask", corrected("token-mask"), "correction/capped"],
  ["correction-sequence-truncate", corrected("sequence-truncate"), "correction/capped"],
  ["correction-sequence-mask", corrected("sequence-mask"), "correction/capped"],
  ["reinforce", reinforce(), "ratioGap"],
  ["dual-clip", dapo({ dualClip: 1.3 }), "clipFraction"],
  ["dppo", dppo({ divergenceLow: 0.02, divergenceHigh: 0.03 }), "clipFraction"],
  ["kl-cov", dapo({ klCovCoef: 0.7, covLow: 0.5 }), "klCovFraction"],
];

test.each(cases)("%s", async (name, { loss, reduction }, reached) => {
  const stored = golden.cases[name]!;
  const found = await runLoss(loss, tokensWith(reduction));
  expect(Math.abs(found.loss - stored.loss) / Math.abs(stored.loss)).toBeLessThan(1e-4);
  expect(difference(found.gradient, stored.gradient.flat()).relative).toBeLessThan(1e-4);
  expect(difference(found.entropyGradient, stored.entropyGradient?.flat() ?? each(() => 0)).max).toBeLessThan(1e-7);
  expect(found.metrics[reached]).toBeGreaterThan(0);
});

test("every stored case is compared", () => {
  expect(cases.map(([name]) => name).sort()).toEqual(Object.keys(golden.cases).sort());
});
