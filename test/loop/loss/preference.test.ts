/** Preference and reward losses as compiled programs: TRL's own numbers, closed forms, finite differences, limiting cases. */
import { afterAll, expect, test } from "vitest";
import { LossProgram } from "../../../src/compute/policy/local/loss-program.ts";
import {
  dpoLoss,
  ktoLoss,
  log1mExp,
  logSigmoid,
  orpoLoss,
  simpoLoss,
  type DpoVariant,
} from "../../../src/loop/loss/preference.ts";
import { bradleyTerry, stepCrossEntropy } from "../../../src/loop/loss/reward.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import type { Loss } from "../../../src/types.ts";
import { goldenJson } from "../../fakes/golden.ts";

interface Row {
  /** Log-probs, or values, of the trained tokens. */
  readonly own: readonly number[];
  readonly reference?: readonly number[];
  readonly sign?: 1 | -1;
  readonly unit: number;
  readonly margin?: number;
  readonly label?: readonly number[];
}

const programs = new Map<string, LossProgram>();
afterAll(() => [...programs.values()].forEach((program) => void program.close()));

interface Options {
  readonly reads?: "logprobs" | "values";
  readonly scalars?: Readonly<Record<string, number>>;
  /** Weight of a token of row r; default: each row the same, all of them 1. */
  readonly weight?: (row: Row) => number;
}

/** Runs a loss over rows; returns its value, metrics and the gradient of each row's tokens. */
async function run(loss: Loss, rows: readonly Row[], { reads = "logprobs", scalars = {}, weight }: Options = {}) {
  const program = programs.get(loss.key) ?? (await LossProgram.compile(loss));
  programs.set(loss.key, program);
  const each = (of: (row: Row, t: number) => number): Float32Array =>
    Float32Array.from(rows.flatMap((row) => row.own.map((_, t) => of(row, t))));
  const share = weight ?? ((row: Row) => 1 / (rows.length * row.own.length));
  const chosenTokens = rows.reduce((sum, { sign, own }) => sum + (sign === 1 ? own.length : 0), 0);
  const result = await program.run({
    [reads]: each(({ own }, t) => own[t]!),
    row: Int32Array.from(rows.flatMap((row, r) => row.own.map(() => r))),
    rowCount: rows.length,
    unit: Int32Array.from(rows.flatMap((row) => row.own.map(() => row.unit))),
    unitCount: Math.max(...rows.map(({ unit }) => unit)) + 1,
    fields: new Map([
      ["sign", each(({ sign = 1 }) => sign)],
      ["advantage", each(({ sign = 1 }) => sign)],
      ["weight", each(share)],
      ["inverseLength", each(({ own }) => 1 / own.length)],
      ["reference", each(({ reference }, t) => reference?.[t] ?? NaN)],
      ["margin", each(({ margin = 0 }) => margin)],
      ["label", each(({ label }, t) => label?.[t] ?? NaN)],
    ]),
    scalars: { chosenTokens, ...scalars },
  });
  const flat = reads === "values" ? result.dValues! : result.dLogprobs;
  let at = 0;
  const gradient = rows.map(({ own }) => [...flat.slice(at, (at += own.length))]);
  return { loss: result.loss, metrics: result.metrics, gradient };
}

// ------------------------------------------------------------------------------------------------------ TRL's numbers

interface GoldenLoss {
  readonly loss: number;
  readonly gradient: readonly unknown[];
  readonly labels?: readonly number[];
  readonly baseline?: number;
}
interface Golden {
  readonly logprobs: readonly (readonly number[])[];
  readonly reference: readonly (readonly number[])[];
  readonly scores: readonly number[];
  readonly margins: readonly number[];
  readonly losses: Readonly<Record<string, GoldenLoss>>;
}
const golden = goldenJson<Golden>("preference.json");
const half = golden.logprobs.length / 2;
const pairRows = golden.logprobs.map((own, i): Row => {
  return { own, reference: golden.reference[i]!, sign: i < half ? 1 : -1, unit: i % half };
});
const scoreRows = (margin: boolean): Row[] =>
  golden.scores.map((score, i): Row => {
    return { own: [score], sign: i < half ? 1 : -1, unit: i % half, margin: margin ? golden.margins[i % half]! : 0 };
  });

const dpo = (variant: DpoVariant, labelSmoothing = 0, ipoLength: "mean" | "sum" = "mean"): Loss =>
  dpoLoss({ variant, beta: 0.1, labelSmoothing, ipoLength, sign: "sign" });

function expectClose(own: { loss: number; gradient: number[][] }, right: { loss: number; gradient: readonly unknown[] }): void {
  expect(Math.abs(own.loss - right.loss) / Math.abs(right.loss)).toBeLessThan(1e-4);
  const wanted = right.gradient.flat() as number[];
  const scale = Math.max(...wanted.map(Math.abs));
  own.gradient.flat().forEach((value, i) => expect(Math.abs(value - wanted[i]!) / scale, `token ${i}`).toBeLessThan(1e-4));
}

test.each<[string, Loss]>([
  ["sigmoid", dpo("sigmoid")],
  ["hinge", dpo("hinge")],
  ["ipo", dpo("ipo")],
  ["robust", dpo("robust", 0.2)],
  ["conservative", dpo("conservative", 0.2)],
  ["orpo", orpoLoss(0.1)],
  ["simpo", simpoLoss({ beta: 2, gamma: 0.5, labelSmoothing: 0, likelihoodWeight: 0 })],
  ["simpo-likelihood", simpoLoss({ beta: 2.5, gamma: 1.2, labelSmoothing: 0.1, likelihoodWeight: 1 })],
])("%s: loss and gradient are TRL's", async (name, loss) => {
  expectClose(await run(loss, pairRows), golden.losses[name]!);
});

test.each([["kto", 1, 1], ["kto-weighted", 1.5, 0.5], ["kto-negative", 1, 1]])(
  "%s: loss and gradient are TRL's",
  async (name, desirableWeight, undesirableWeight) => {
    const right = golden.losses[name]!;
    const rows = pairRows.map((row, unit): Row => ({ ...row, unit }));
    const loss = ktoLoss({ beta: 0.1, desirableWeight, undesirableWeight });
    const scalars = { klBaseline: right.baseline!, goodShare: 0.5, badShare: 0.5 };
    expectClose(await run(loss, rows, { scalars }), right);
  },
);

test.each<[string, boolean, number]>([["reward", false, 0], ["reward-margin", true, 0], ["reward-centred", true, 0.01]])(
  "%s: loss and gradient are TRL's",
  async (name, margin, centring) => {
    const own = await run(bradleyTerry({ centring, labelSmoothing: 0 }), scoreRows(margin), { reads: "values" });
    expectClose(own, golden.losses[name]!);
  },
);

test.each(["steps-hard", "steps-soft"])("%s: loss and gradient are torch's two-class cross-entropy", async (name) => {
  const { labels, ...right } = golden.losses[name]!;
  const rows = [{ own: golden.scores, label: labels!, unit: 0 }];
  expectClose(await run(stepCrossEntropy, rows, { reads: "values" }), right);
});

// ------------------------------------------------------------------------------------------------------- closed forms

const pair = (chosen: number, rejected: number, reference: readonly [number, number]): Row[] => [
  { own: [chosen], reference: [reference[0]], sign: 1, unit: 0 },
  { own: [rejected], reference: [reference[1]], sign: -1, unit: 0 },
];

test("log-probs -10 and -12 with references -11 and -11: margin 0.2, loss 0.598139", async () => {
  const { loss, metrics } = await run(dpo("sigmoid"), pair(-10, -12, [-11, -11]));
  expect(loss).toBeCloseTo(0.598139, 5);
  expect(metrics["rewards/margin"]).toBeCloseTo(0.2, 6);
  expect([metrics["rewards/chosen"], metrics["rewards/rejected"]].map((x) => Number(x!.toFixed(6)))).toEqual([0.1, -0.1]);
  expect([metrics["rewards/accuracy"], metrics["reference/gap"]]).toEqual([1, 1]);
});

test("policy = reference: ln 2 and a gradient of -beta / 2 and beta / 2", async () => {
  const { loss, gradient, metrics } = await run(dpo("sigmoid"), pair(-11, -13, [-11, -13]));
  expect(loss).toBeCloseTo(Math.LN2, 6);
  expect(gradient[0]![0]).toBeCloseTo(-0.05, 7);
  expect(gradient[1]![0]).toBeCloseTo(0.05, 7);
  expect(metrics["reference/gap"]).toBe(0);
});

test("without noise in the labels, conservative and robust are the plain loss", async () => {
  const plain = await run(dpo("sigmoid"), pairRows);
  for (const variant of ["conservative", "robust"] as const) expect((await run(dpo(variant), pairRows)).loss).toBeCloseTo(plain.loss, 6);
  // In expectation over labels that are flipped with probability e, the robust loss is the plain one of the true labels.
  const flipped = pairRows.map((row): Row => ({ ...row, sign: row.sign === 1 ? -1 : 1 }));
  const robust = [await run(dpo("robust", 0.2), pairRows), await run(dpo("robust", 0.2), flipped)];
  expect(0.8 * robust[0]!.loss + 0.2 * robust[1]!.loss).toBeCloseTo(plain.loss, 5);
});

test("IPO over sums and over means are one for answers of one token, and differ for longer ones", async () => {
  const short = pair(-1, -3, [-2, -2]);
  // d = 1 - -1 = 2; (2 - 1 / 0.2)^2 = 9.
  expect((await run(dpo("ipo"), short)).loss).toBeCloseTo(9, 5);
  expect((await run(dpo("ipo", 0, "sum"), short)).loss).toBeCloseTo(9, 5);
  const long = short.map((row): Row => ({ ...row, own: [row.own[0]!, -2], reference: [-2, -2] }));
  expect((await run(dpo("ipo"), long)).loss).toBeCloseTo(16, 5);
  expect((await run(dpo("ipo", 0, "sum"), long)).loss).toBeCloseTo(9, 5);
});

test("hinge: no gradient beyond the margin", async () => {
  const far = await run(dpo("hinge"), pair(-1, -20, [-5, -5]));
  expect([far.loss, ...far.gradient.flat()].map(Math.abs)).toEqual([0, 0, 0]);
});

test("SimPO: beta 2, mean log-probs -1 and -2, gamma 0.5: -log sigmoid(1.5)", async () => {
  const rows: Row[] = [{ own: [-0.5, -1.5], sign: 1, unit: 0 }, { own: [-2, -2, -2], sign: -1, unit: 0 }];
  const loss = simpoLoss({ beta: 2, gamma: 0.5, labelSmoothing: 0, likelihoodWeight: 0 });
  expect((await run(loss, rows)).loss).toBeCloseTo(Math.log(1 + Math.exp(-1.5)), 6);
});

test("ORPO: mean log-probs ln 0.5 and ln 0.25: log odds ln 3", async () => {
  const rows: Row[] = [{ own: [Math.log(0.5)], sign: 1, unit: 0 }, { own: [Math.log(0.25)], sign: -1, unit: 0 }];
  // Odds 1 and 1/3; -log sigmoid(ln 3) = ln(4 / 3); likelihood ln 2.
  expect((await run(orpoLoss(0.1), rows)).loss).toBeCloseTo(Math.LN2 + 0.1 * Math.log(4 / 3), 6);
  const certain: Row[] = [{ own: [0], sign: 1, unit: 0 }, { own: [-3], sign: -1, unit: 0 }];
  const { loss, gradient } = await run(orpoLoss(0.1), certain);
  expect(Number.isFinite(loss) && gradient.flat().every(Number.isFinite)).toBe(true);
});

test("KTO: at the baseline both labels cost one half; above it a good answer costs less", async () => {
  const loss = ktoLoss({ beta: 0.1, desirableWeight: 1, undesirableWeight: 1 });
  const rows = (gap: number): Row[] => [
    { own: [-2 + gap], reference: [-2], sign: 1, unit: 0 },
    { own: [-2 + gap], reference: [-2], sign: -1, unit: 1 },
  ];
  const scalars = { klBaseline: 0.5, goodShare: 0.5, badShare: 0.5 };
  expect((await run(loss, rows(0.5), { scalars })).loss).toBeCloseTo(0.5, 6);
  const { gradient, metrics } = await run(loss, rows(3), { scalars });
  expect([Math.sign(gradient[0]![0]!), Math.sign(gradient[1]![0]!)]).toEqual([-1, 1]);
  expect(metrics["rewards/chosen"]).toBeCloseTo(0.3, 6);
  expect(metrics["rewards/rejected"]).toBeCloseTo(0.3, 6);
  expect(metrics["rewards/accuracy"]).toBe(0.5);
});

test("Bradley-Terry: equal scores give ln 2; the margin asks for more; smoothing keeps a far score from being free", async () => {
  const scores = (chosen: number, rejected: number, margin = 0): Row[] => [
    { own: [chosen], sign: 1, unit: 0, margin },
    { own: [rejected], sign: -1, unit: 0, margin },
  ];
  const value = async (rows: Row[], centring = 0, labelSmoothing = 0): Promise<number> =>
    (await run(bradleyTerry({ centring, labelSmoothing }), rows, { reads: "values" })).loss;
  expect(await value(scores(0.7, 0.7))).toBeCloseTo(Math.LN2, 6);
  expect(await value(scores(2, 1, 1))).toBeCloseTo(Math.LN2, 6);
  expect(await value(scores(3, 1), 0.01)).toBeCloseTo(Math.log(1 + Math.exp(-2)) + 0.16, 6);
  expect(await value(scores(10, -10), 0, 0.1)).toBeCloseTo(2, 4);
});

// -------------------------------------------------------------------------------------- finite differences and limits

const losses: readonly [string, Loss, Options][] = [
  ["sigmoid", dpo("sigmoid"), {}],
  ["conservative", dpo("conservative", 0.1), {}],
  ["robust", dpo("robust", 0.1), {}],
  ["ipo", dpo("ipo"), {}],
  ["ipo over sums", dpo("ipo", 0, "sum"), {}],
  [
    "kto",
    ktoLoss({ beta: 0.1, desirableWeight: 1.2, undesirableWeight: 0.8 }),
    { scalars: { klBaseline: 0.3, goodShare: 0.5, badShare: 0.5 } },
  ],
  ["orpo", orpoLoss(0.5), {}],
  ["simpo", simpoLoss({ beta: 2, gamma: 1, labelSmoothing: 0.05, likelihoodWeight: 0.5 }), {}],
  ["bradley-terry", bradleyTerry({ centring: 0.05, labelSmoothing: 0.1 }), { reads: "values" }],
];

test.each(losses)("%s: the gradient is that of finite differences", async (name, loss, options) => {
  const values = options.reads === "values";
  const alone = name === "kto";
  const rows = (values ? scoreRows(true) : pairRows).map((row, i): Row => (alone ? { ...row, unit: i } : row));
  const { gradient } = await run(loss, rows, options);
  const chosenTokens = rows.reduce((sum, { sign, own }) => sum + (sign === 1 ? own.length : 0), 0);
  const step = 0.02;
  for (const [r, t] of values ? [[0, 0], [6, 0]] : [[0, 1], [2, 4], [5, 0], [7, 0]]) {
    const moved = async (by: number): Promise<number> => {
      const changed = rows.map((row, i): Row => (i === r ? { ...row, own: row.own.map((x, j) => (j === t ? x + by : x)) } : row));
      return (await run(loss, changed, { ...options, scalars: { chosenTokens, ...options.scalars } })).loss;
    };
    const slope = (8 * ((await moved(step)) - (await moved(-step))) - ((await moved(2 * step)) - (await moved(-2 * step)))) / (12 * step);
    expect(Math.abs(slope - gradient[r!]![t!]!), `row ${r} token ${t}`).toBeLessThan(2e-5 + 2e-3 * Math.abs(slope));
  }
});

test.each(losses)("%s: two parts of a batch add up to the whole", async (name, loss, options) => {
  const alone = name === "kto";
  const all = options.reads === "values" ? scoreRows(true) : pairRows;
  const chosenTokens = all.reduce((sum, { sign, own }) => sum + (sign === 1 ? own.length : 0), 0);
  const scalars = { chosenTokens, ...options.scalars };
  const weight = (row: Row): number => 1 / (all.length * row.own.length);
  const numbered = all.map((row, i): Row => (alone ? { ...row, unit: i } : row));
  const whole = await run(loss, numbered, { ...options, scalars, weight });
  const parts = [numbered.filter((_, i) => i % half < 1), numbered.filter((_, i) => i % half >= 1)].map((rows) => {
    const units = [...new Set(rows.map(({ unit }) => unit))];
    return rows.map((row): Row => ({ ...row, unit: units.indexOf(row.unit) }));
  });
  const sums = await Promise.all(parts.map((rows) => run(loss, rows, { ...options, scalars, weight })));
  expect(sums[0]!.loss + sums[1]!.loss).toBeCloseTo(whole.loss, 5);
  for (const [key, value] of Object.entries(whole.metrics)) expect(sums[0]!.metrics[key]! + sums[1]!.metrics[key]!).toBeCloseTo(value, 4);
});

test("log sigmoid and log(1 - exp) are exact where the plain formulas lose their digits", async () => {
  const at = async (f: (x: ReturnType<typeof o.input>) => ReturnType<typeof o.input>, xs: number[]) => {
    const loss: Loss = { key: `test/${f.name}`, build: (x) => ({ loss: o.sum(f(x.logprobs)), metrics: {} }) };
    return Promise.all(xs.map(async (x) => run(loss, [{ own: [x], unit: 0 }]).then((r) => [r.loss, r.gradient[0]![0]!] as const)));
  };
  for (const [i, [value, slope]] of (await at(logSigmoid, [-200, -3, 0, 3, 20, 200])).entries()) {
    const x = [-200, -3, 0, 3, 20, 200][i]!;
    expect(Math.abs(value + Math.log1p(Math.exp(-Math.abs(x))) - Math.min(x, 0))).toBeLessThan(2e-7 * Math.max(1, Math.abs(x)));
    const right = 1 / (1 + Math.exp(x));
    expect(Math.abs(slope - right)).toBeLessThan(1e-5 * right + 1e-30);
  }
  const points = [-1e-6, -1e-3, -0.1, -0.399, -0.401, -0.7, -5, -40];
  for (const [i, [value, slope]] of (await at(log1mExp, points)).entries()) {
    const x = points[i]!;
    const right = Math.log(-Math.expm1(x));
    expect(Math.abs(value - right)).toBeLessThan(1e-6 * Math.max(1, Math.abs(right)));
    const rightSlope = Math.exp(x) / Math.expm1(x);
    expect(Math.abs(slope - rightSlope)).toBeLessThan(1e-5 * Math.abs(rightSlope) + 1e-30);
  }
});
