/** One PPO step against PyTorch, the critic's loss by closed form, the controller, and what is refused. */
import { afterAll, expect, test } from "vitest";
import { ppo } from "../../src/algo/ppo.ts";
import { correction, stability } from "../../src/algo/settings.ts";
import { scalarHeadName } from "../../src/compute/models/scalar-head.ts";
import type { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { valueLoss } from "../../src/loop/loss/value.ts";
import { explainedVariance } from "../../src/train/critic.ts";
import type { Batch, CreditContext, Trajectory } from "../../src/types.ts";
import { context, memberOf, QUESTION, sampled, trajectoryOf } from "../fakes/credit.ts";
import { goldenEngine, peftName, separate, storedLora, together, trainRow, type GoldenEngine } from "../fakes/engines.ts";
import { difference, goldenJson, goldenTensors } from "../fakes/golden.ts";

interface Golden {
  readonly clip: number;
  readonly valueClip: number;
  readonly klCoef: number;
  readonly gamma: number;
  readonly lambda: number;
  readonly rows: readonly { readonly ids: readonly number[]; readonly trained: readonly number[] }[];
  readonly scores: readonly number[];
  readonly head: readonly number[];
  readonly policyLoss: number;
  readonly valueLoss: number;
  readonly old: readonly (readonly number[])[];
  readonly reference: readonly (readonly number[])[];
  readonly values: readonly (readonly number[])[];
  readonly rawAdvantages: readonly (readonly number[])[];
  readonly advantages: readonly (readonly number[])[];
  readonly returns: readonly (readonly number[])[];
  readonly returnsOfWhitenedRewards: readonly (readonly number[])[];
}
const golden = goldenJson<Golden>("ppo/step.json");
const settings = { gamma: golden.gamma, lambda: golden.lambda, clipLow: golden.clip, clipHigh: golden.clip, klRewardCoef: golden.klCoef };

const opened: LocalEngine[] = [];
afterAll(() => Promise.all(opened.map((engine) => engine.close())));

async function actorAndCritic(microBatchTokens = 2048): Promise<GoldenEngine> {
  const given = await goldenEngine("llama", "stored-lora", { microBatchTokens });
  opened.push(given.engine);
  const { rank, alpha } = storedLora;
  given.engine.addAdapter("critic", { from: "policy", rank, alpha, scalarHead: true, trained: true, seed: 0 });
  given.engine.model.parametersOf("critic").get(scalarHeadName)!.floats.set(golden.head);
  return given;
}

/** The rows as rollouts: their prompt is context, the rest was sampled with the old log-probs. */
const trajectories = golden.rows.map(({ ids, trained }, i): Trajectory => {
  const prompt = ids.slice(0, trained[0]);
  return trajectoryOf([{ spans: [context(...prompt), sampled(ids.slice(trained[0]), golden.old[i])] }], { type: "done" }, `r${i}`);
});

const evidence: CreditContext = {
  evidence: (trajectory) => {
    const i = trajectories.indexOf(trajectory);
    return { values: [Float32Array.from(golden.values[i]!)], valueAfter: 0, reference: [Float32Array.from(golden.reference[i]!)] };
  },
  limits: { maxTokens: 16, maxTurns: 1 },
  coefficients: {},
};

function creditsOf(options: Parameters<typeof ppo>[0]) {
  const groups = trajectories.map((trajectory, i) => ({ task: QUESTION, members: [memberOf(trajectory, golden.scores[i]!)] }));
  return ppo({ ...settings, ...options }).credit(groups, evidence);
}

const near = (found: readonly (Float32Array | undefined)[], wanted: readonly (readonly number[])[]): void =>
  wanted.forEach((row, i) => expect(difference(found[i]!, row).relative).toBeLessThan(1e-5));

test("KL rewards, GAE and whitening equal PyTorch's", () => {
  const whitened = creditsOf({}).flat();
  near(whitened.map((credit) => credit!.advantages[0]), golden.advantages);
  near(whitened.map((credit) => credit!.returns![0]), golden.returns);
  near(creditsOf({ whitenAdvantages: false }).flat().map((credit) => credit!.advantages[0]), golden.rawAdvantages);
  near(creditsOf({ whitenRewards: true }).flat().map((credit) => credit!.returns![0]), golden.returnsOfWhitenedRewards);
});

/** The held gradients of an adapter by the golden file's names. */
function gradientsOf({ engine, family }: GoldenEngine, adapter: string): Map<string, Float32Array> {
  const flat = engine.directions(adapter).takeGradient();
  let at = 0;
  const found = new Map<string, Float32Array>();
  for (const [name, { data }] of engine.model.parametersOf(adapter)) {
    if (name !== scalarHeadName && !/\.lora[AB]$/.test(name)) continue;
    const stored = name === scalarHeadName ? "base_model.model.score.weight" : peftName(family, name);
    found.set(stored, flat.subarray(at, (at += data.length)));
  }
  return found;
}

const ways = [["one micro-batch", 2048], ["a micro-batch a row", 1]] as const;
test.each(ways)("%s: both losses and their gradients equal PyTorch's", async (_way, tokens) => {
  const given = await actorAndCritic(tokens);
  const { loss, critic } = ppo({ ...settings, valueClip: golden.valueClip });
  const { batch } = buildBatch(creditsOf({}), {
    reduction: "token-mean", maskTruncated: false, maxLength: 16, skipZero: false, evidence: evidence.evidence,
  });
  const stored = await goldenTensors("ppo/step.safetensors");
  const wanted = (of: string) =>
    [...stored].flatMap(([name, values]) => (name.startsWith(`${of}/`) ? [[name.slice(of.length + 1), values] as const] : []));
  const policy = await given.engine.forwardBackward(batch!, loss);
  expect(Math.abs(policy.loss / golden.policyLoss - 1)).toBeLessThan(1e-4);
  const ofPolicy = gradientsOf(given, "policy");
  for (const [name, values] of wanted("policy")) expect(difference(ofPolicy.get(name)!, values).relative, name).toBeLessThan(1e-4);
  const value = await given.engine.forwardBackward(batch!, critic!.loss, { adapter: "critic" });
  expect(Math.abs(value.loss / golden.valueLoss - 1)).toBeLessThan(1e-4);
  expect(value.metrics["clipFraction"]).toBeGreaterThan(0);
  const ofCritic = gradientsOf(given, "critic");
  for (const [name, values] of wanted("value")) expect(difference(ofCritic.get(name)!, values).relative, name).toBeLessThan(1e-4);
  expect(ofCritic.size).toBe(wanted("value").length);
});

test("the critic's loss by hand: half the larger square, with the value held near its old one", async () => {
  const { engine } = await actorAndCritic();
  const row = trainRow(golden.rows[0]!.ids, golden.rows[0]!.trained);
  const [values] = await engine.values([row], { adapter: "critic" });
  const target = values!.map((value) => value + 1);
  const batch = (old: Float32Array): Batch => {
    const fields = { return: target, value: old, weight: new Float32Array(values!.length).fill(1 / values!.length) };
    return together([{ ...row, fields }], { tokens: values!.length });
  };
  const lossAt = async (clip: number, old: Float32Array): Promise<number> => {
    const { loss } = await engine.forwardBackward(batch(old), valueLoss(clip), { adapter: "critic" });
    engine.directions("critic").takeGradient();
    return loss;
  };
  expect(await lossAt(0, values!)).toBeCloseTo(0.5, 5);
  // Old values half a unit below: the clipped value is 0.3 below the new one, 1.3 from the target.
  expect(await lossAt(0.2, values!.map((value) => value - 0.5))).toBeCloseTo(0.845, 5);
  expect(await lossAt(1, values!.map((value) => value - 0.5))).toBeCloseTo(0.5, 5);
});

test("explained variance: 1 for a critic that is right, 0 for a constant one, nothing where returns are equal", () => {
  const of = (target: readonly number[], value: readonly number[]): number | undefined =>
    explainedVariance(separate([trainRow([1, 2, 3, 4], [1, 2, 3], { fields: { return: target, value } })]));
  expect(of([1, 2, 3], [1, 2, 3])).toBe(1);
  expect(of([1, 2, 3], [5, 5, 5])).toBe(0);
  expect(of([1, 2, 3], [1, 2, 1.5])).toBeCloseTo(1 - 0.5 / (2 / 3), 6);
  expect(of([2, 2, 2], [1, 2, 3])).toBeUndefined();
});

test("the adaptive controller moves by at most a fifth of the share of its horizon", () => {
  const { controller } = ppo({ klControl: "adaptive", klRewardCoef: 0.001 });
  expect(controller!.initial).toEqual({ klRewardCoef: 0.001 });
  const next = (kl: number | undefined, completions = 64): number =>
    controller!.next({ klRewardCoef: 0.001 }, { metrics: kl === undefined ? {} : { "kl/completionK1": kl }, completions })["klRewardCoef"]!;
  expect(next(1) / 0.001).toBeCloseTo(1.00128, 10);
  expect(next(0) / 0.001).toBeCloseTo(1 - 0.00128, 10);
  expect(next(0.11) / 0.001).toBeCloseTo(1 + 0.1 * 0.0064, 10);
  expect(next(undefined)).toBe(0.001);
  const two = ppo({ klControl: "adaptive", entropyCoef: 0.01, entropyFloor: 1 }).controller!;
  expect(two.initial).toEqual({ entropyCoef: 0, klRewardCoef: 0.05 });
  const moved = two.next(two.initial, { metrics: { entropy: 0.5, "kl/completionK1": 1 }, completions: 10_000 });
  expect(moved["entropyCoef"]).toBe(0.01);
  expect(moved["klRewardCoef"]).toBeCloseTo(0.06, 12);
});

test("the coefficient of the step, where there is one, stands in place of the setting", () => {
  const groups = [{ task: QUESTION, members: [memberOf(trajectories[0]!, 0)] }];
  const at = (coefficients: Readonly<Record<string, number>>): number =>
    ppo({ whitenAdvantages: false }).credit(groups, { ...evidence, coefficients })[0]![0]!.returns![0]![0]!;
  expect(at({ klRewardCoef: 0.2 })).not.toBe(at({ klRewardCoef: 0.1 }));
  expect(at({ klRewardCoef: 0.05 })).toBe(at({}));
});

/** All that the loop asks of it, on three episodes of which one was cut without an end of turn. */
function behaviour(options: NonNullable<Parameters<typeof ppo>[0]>): string {
  const { credit, loss, critic, controller, ...rest } = ppo(options);
  const members = trajectories.map((trajectory, i) => {
    const rows = trajectory.rows.map(({ spans }) => ({
      spans: spans.map((span) => (i === 1 && span.kind === "sampled" ? ({ ...span, finish: { type: "length" } } as const) : span)),
    }));
    return memberOf({ ...trajectory, rows, end: i === 1 ? { type: "length" } : { type: "done" } }, 20 * golden.scores[i]!);
  });
  const places = new Map(members.map((member, i) => [member.trajectory, trajectories[i]!]));
  const after = ({ end }: Trajectory): number => (end.type === "done" ? 0 : 0.7);
  const of = (trajectory: Trajectory) => ({ ...evidence.evidence(places.get(trajectory)!), valueAfter: after(trajectory) });
  const credits = credit([{ task: QUESTION, members }], { ...evidence, evidence: of })[0]!;
  const step = { metrics: { "kl/completionK1": 0.11, entropy: 0.1 }, completions: 64 };
  const { settings: _, ...kept } = rest;
  return JSON.stringify([
    kept,
    credits.map((each) => [each!.advantages, each!.returns]),
    loss.key,
    { ...critic, loss: critic!.loss.key },
    controller?.next(controller.initial, step),
  ]);
}

const others: Readonly<Record<string, { readonly to: unknown; readonly base?: object }>> = {
  groupSize: { to: 2 }, clipLow: { to: 0.1 }, clipHigh: { to: 0.3 }, dualClip: { to: 3 }, gamma: { to: 0.9 }, lambda: { to: 1 },
  whitenAdvantages: { to: false }, whitenRewards: { to: true }, cutEpisodes: { to: "score" }, rewardClip: { to: 5 },
  missingEosPenalty: { to: 1 }, klRewardCoef: { to: 0.2 }, klCoef: { to: 0.1, base: { klRewardCoef: 0 } },
  klEstimator: { to: "k1", base: { klRewardCoef: 0, klCoef: 0.1 } }, klControl: { to: "adaptive" },
  klTarget: { to: 0.105, base: { klControl: "adaptive" } }, klHorizon: { to: 500, base: { klControl: "adaptive" } },
  valueClip: { to: 0 }, criticLearningRate: { to: 1e-3 }, criticWarmupSteps: { to: 3 }, criticEpochsPerBatch: { to: 1 },
  epochsPerBatch: { to: 1 }, reduction: { to: "constant" }, maskTruncated: { to: true },
};

test.each(Object.keys(others))("%s has an effect", (key) => {
  const { to, base = {} } = others[key]!;
  expect(behaviour({ ...base, [key]: to })).not.toBe(behaviour(base));
});

test("every setting of its own is tried above", () => {
  const shared = Object.keys({ ...stability, ...correction });
  expect(Object.keys(ppo().settings).filter((key) => !shared.includes(key)).sort()).toEqual(Object.keys(others).sort());
});

test.each<[Parameters<typeof ppo>[0], string]>([
  [{ klCoef: 0.1 }, "algo.klCoef and algo.klRewardCoef: KL counts twice, as 0.1 in the loss and 0.05 in the reward; set one to 0"],
  [{ klRewardCoef: 0, klControl: "adaptive" }, "algo.klControl and algo.klRewardCoef: no KL in the reward to control"],
  [{ klTarget: 6 }, "algo.klTarget and algo.klControl: klTarget does nothing while klControl is fixed"],
  [{ groupSize: 0 }, "algo.groupSize: expected an integer of at least 1 and at most 4096, got 0"],
])("%j is refused", (options, message) => {
  expect(() => ppo(options)).toThrow(message);
});
