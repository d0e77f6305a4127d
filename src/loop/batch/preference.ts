/**
 * Preference and reward-model batches. A pair is one unit, its chosen rows first; a labelled answer is a unit of its own. "weight" of a
 * batch sums to 1, so that a unit's sum is its share; "inverseLength" is 1 / trained tokens of the whole answer. A reward model reads
 * an answer's value after its last token.
 */
import type { EncodedDialogue } from "../../compute/text/dialogue.ts";
import type { Batch, Reduction, TrainRow, Unit } from "../../types.ts";

/** An answer: one row, or more where the template rewrites earlier turns. */
type Answer = readonly EncodedDialogue[];

export interface EncodedPair {
  readonly chosen: Answer;
  readonly rejected: Answer;
  /** By how much the chosen answer should be ahead; 0 if nothing is said. */
  readonly margin: number;
}

export interface EncodedLabel {
  readonly rows: Answer;
  readonly good: boolean;
}

export interface EncodedSteps {
  readonly ids: Int32Array;
  /** Positions after the last token of each step. */
  readonly after: Int32Array;
  /** [steps] 0 to 1. */
  readonly labels: Float32Array;
}

const tokensOf = (answer: Answer): number => answer.reduce((sum, { trained }) => sum + trained.length, 0);

/** A row whose fields are one number each, repeated over its trained tokens. */
function rowOf(ids: Int32Array, trained: Int32Array, fields: Readonly<Record<string, number>>): TrainRow {
  const repeated = Object.entries(fields).map(([name, value]) => [name, new Float32Array(trained.length).fill(value)]);
  return { ids, trained, fields: Object.fromEntries(repeated) as TrainRow["fields"], temperature: 1 };
}

function answerRows(answer: Answer, { sign, share, margin = 0 }: { sign: 1 | -1; share: number; margin?: number }): TrainRow[] {
  const inverseLength = 1 / tokensOf(answer);
  return answer.map(({ ids, trained }) => rowOf(ids, trained, { sign, weight: share * inverseLength, inverseLength, margin }));
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** Pairs for losses over log-probs. */
export function pairBatch(pairs: readonly EncodedPair[]): Batch {
  const share = 1 / (2 * pairs.length);
  const units = pairs.map(({ chosen, rejected, margin }): Unit => {
    return { rows: [...answerRows(chosen, { sign: 1, share, margin }), ...answerRows(rejected, { sign: -1, share, margin })] };
  });
  const chosenTokens = sum(pairs.map(({ chosen }) => tokensOf(chosen)));
  const tokens = chosenTokens + sum(pairs.map(({ rejected }) => tokensOf(rejected)));
  return { units, scalars: { tokens, chosenTokens, units: units.length } };
}

/** Answers that are good or bad. The shares are those of the step, for means over one label alone. */
export function labelBatch(labels: readonly EncodedLabel[]): Batch {
  const share = 1 / labels.length;
  const units = labels.map(({ rows, good }): Unit => ({ rows: answerRows(rows, { sign: good ? 1 : -1, share }) }));
  const goodShare = share * labels.filter(({ good }) => good).length;
  const tokens = sum(labels.map(({ rows }) => tokensOf(rows)));
  return { units, scalars: { tokens, units: units.length, goodShare, badShare: 1 - goodShare } };
}

const atEnd = ({ ids }: EncodedDialogue, fields: Readonly<Record<string, number>>): TrainRow =>
  rowOf(ids, Int32Array.of(ids.length), fields);

/** Pairs for losses over one value an answer. */
export function scoredPairBatch(pairs: readonly EncodedPair[]): Batch {
  const weight = 1 / (2 * pairs.length);
  const last = (answer: Answer, sign: 1 | -1, margin: number): TrainRow => atEnd(answer.at(-1)!, { sign, weight, margin });
  const units = pairs.map(({ chosen, rejected, margin }): Unit => ({ rows: [last(chosen, 1, margin), last(rejected, -1, margin)] }));
  return { units, scalars: { tokens: 2 * units.length, units: units.length } };
}

/** Solutions with labelled steps, for losses over one value a step. */
export function stepBatch(solutions: readonly EncodedSteps[], reduction: Exclude<Reduction, "constant">): Batch {
  const steps = sum(solutions.map(({ after }) => after.length));
  const units = solutions.map(({ ids, after, labels }): Unit => {
    const weight = reduction === "token-mean" ? 1 / steps : 1 / (solutions.length * after.length);
    const row = rowOf(ids, after, { weight });
    return { rows: [{ ...row, fields: { ...row.fields, label: labels } }] };
  });
  return { units, scalars: { tokens: steps, units: units.length } };
}
