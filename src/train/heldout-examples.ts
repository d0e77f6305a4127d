/** Evaluation of an offline run on examples that it never trains on: accuracy with its interval, margins, disagreement, loss. */
import { rounding } from "../loop/loss/preference.ts";
import type { Batch, Engine, OfflineAlgorithm, TrainRow } from "../types.ts";
import { wilson } from "./evaluate/statistics.ts";
import { batchOf, type Example } from "./examples.ts";
import type { AddReference } from "./reference.ts";

export interface HeldoutScores {
  readonly metrics: Readonly<Record<string, number>>;
  /** Larger is better: accuracy, or minus the loss of dialogues. */
  readonly score: number;
  /** For people. */
  readonly text: string;
}

interface HeldoutOptions {
  readonly algorithm: OfflineAlgorithm;
  readonly examples: readonly Example[];
  /** Where the examples are in the whole data. */
  readonly indices: readonly number[];
  readonly engine: Engine;
  readonly adapters: readonly string[];
  readonly addReference: AddReference;
  readonly signal?: AbortSignal;
}

export async function evaluateExamples(options: HeldoutOptions): Promise<HeldoutScores> {
  const { algorithm, examples, indices, engine, adapters, addReference, signal } = options;
  const abort = signal === undefined ? {} : { signal };
  const batch = await addReference(batchOf(examples, algorithm), indices);
  const rows = batch.units.flatMap((unit) => [...unit.rows]);
  if (algorithm.trains === "reward") {
    const values = [];
    for (const adapter of adapters) values.push(await engine.values(rows, { adapter, ...abort }));
    return algorithm.examples === "steps" ? stepScores(rows, values[0]!) : pairScores(values.map((own) => marginsOf(batch, own)));
  }
  const logprobs = await engine.logprobs(rows, abort);
  if (algorithm.examples === "dialogues") return likelihood(logprobs);
  const answers = algorithm.needsReference ? rows.map(({ fields }, r) => minus(logprobs[r]!, fields["reference"]!)) : logprobs;
  const scores = algorithm.needsReference ? answers : rows.map(({ fields }, r) => times(answers[r]!, fields["inverseLength"]!));
  // A good answer should gain, a bad one lose; of a pair the chosen one should gain more.
  return pairScores([marginsOf(batch, scores)]);
}

/** Per unit: sum over its tokens of sign x number. */
function marginsOf({ units }: Batch, numbers: readonly Float32Array[]): number[] {
  let next = 0;
  return units.map(({ rows }) =>
    rows.reduce((sum, { fields }) => {
      const own = numbers[next++]!;
      return sum + own.reduce((part, x, t) => part + fields["sign"]![t]! * x, 0);
    }, 0),
  );
}

const minus = (a: Float32Array, b: Float32Array): Float32Array => a.map((x, t) => x - b[t]!);
const times = (a: Float32Array, b: Float32Array): Float32Array => a.map((x, t) => x * b[t]!);
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** Margins of each member and unit; the ensemble's answer is the mean of its members. */
function pairScores(margins: readonly (readonly number[])[]): HeldoutScores {
  const units = margins[0]!.map((_, u) => margins.map((own) => own[u]!));
  const together = units.map(mean);
  const deviation = (values: readonly number[]): number => Math.sqrt(mean(values.map((x) => (x - mean(values)) ** 2)));
  const extra = margins.length === 1 ? {} : { "heldout/disagreement": mean(units.map(deviation)) };
  return withAccuracy(together.filter((margin) => margin > rounding).length, units.length, { "heldout/margin": mean(together), ...extra });
}

/** Labels of exactly one half say nothing and are not counted. */
function stepScores(rows: readonly TrainRow[], values: readonly Float32Array[]): HeldoutScores {
  const steps = rows.flatMap(({ fields }, r) => [...fields["label"]!].map((label, k) => ({ label, value: values[r]![k]! })));
  const told = steps.filter(({ label }) => label !== 0.5);
  const loss = mean(steps.map(({ label, value }) => Math.log1p(Math.exp(-Math.abs(value))) + Math.max(value, 0) - label * value));
  return withAccuracy(told.filter(({ label, value }) => value > 0 === label > 0.5).length, told.length, { "heldout/loss": loss });
}

function likelihood(logprobs: readonly Float32Array[]): HeldoutScores {
  const tokens = logprobs.flatMap((row) => [...row]);
  const loss = -mean(tokens);
  const metrics = { "heldout/loss": loss, "heldout/examples": logprobs.length };
  return { metrics, score: -loss, text: `held-out loss ${loss.toFixed(4)} a token (${logprobs.length} rows)` };
}

function withAccuracy(right: number, count: number, more: Readonly<Record<string, number>>): HeldoutScores {
  const accuracy = count === 0 ? NaN : right / count;
  const { low, high } = wilson(right, count);
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  return {
    metrics: { "heldout/accuracy": accuracy, "heldout/accuracyLow": low, "heldout/accuracyHigh": high, "heldout/examples": count, ...more },
    score: accuracy,
    text: `held-out accuracy ${percent(accuracy)} (95 % interval ${percent(low)} to ${percent(high)}, ${count} judged)`,
  };
}
