/**
 * One bounded update from a few lessons: DPO on pairs (arXiv:2305.18290) with the likelihood of the chosen answer beside it (RPO,
 * arXiv:2404.19733), KTO on labelled answers (arXiv:2402.01306), cross-entropy on demonstrations. It is kept only if what was asked for
 * went the right way and neither the drift from the opened model nor the guard answers broke their bounds; else it is tried again
 * with a quarter of the step, and at last not made at all.
 */
import type { Engine } from "../../types.ts";
import type { Lesson, LessonRow } from "./journal.ts";
import { lessonBatches, plainRow, rowsOf } from "./lesson-batch.ts";

export interface UpdateSettings {
  readonly learningRate: number;
  /** Optimiser steps of one try. */
  readonly steps: number;
  /** DPO's and KTO's beta. */
  readonly beta: number;
  /** Bound of the drift, nats a token: the mean of k3 of the opened model against this one over `watched`. */
  readonly maxDrift: number;
  /** By how much the guard's mean log-prob a token may lie below the opened model's. */
  readonly guardDrop: number;
  /** Steps that are tried, each a quarter of the one before. */
  readonly tries: number;
}

interface Watched {
  /** Rows on which drift is measured, beside the lessons' own. */
  readonly answers: readonly LessonRow[];
  /** Answers that must not become less likely. */
  readonly guard: readonly LessonRow[];
}

/** Log-probs of whole answers, and what they are of. */
interface LessonMeasure {
  readonly kind: Lesson["kind"];
  /** Summed log-prob of the good side (chosen, good, corrected); absent for a bad label. */
  readonly good?: number;
  /** Of the bad side (rejected, bad). */
  readonly bad?: number;
}

export interface Measured {
  readonly lessons: readonly LessonMeasure[];
  readonly drift: number;
  /** Mean log-prob a token of the guard answers, less the opened model's; null without any. */
  readonly guard: number | null;
}

type Update =
  | { readonly type: "learned"; readonly before: Measured; readonly after: Measured; readonly learningRate: number; readonly tries: number }
  | { readonly type: "held"; readonly before: Measured; readonly reason: string; readonly tries: number };

interface UpdateOptions {
  readonly adapter: string;
  readonly settings: UpdateSettings;
  readonly lessons: readonly Lesson[];
  /** Learned before, and trained along so that it is not unlearned. */
  readonly replayed: readonly Lesson[];
  readonly watched: Watched;
  /** Puts the adapter back to what it was before the update, bitwise. */
  readonly restore: () => Promise<void>;
}

export async function boundedUpdate(engine: Engine, options: UpdateOptions): Promise<Update> {
  const { adapter, settings, lessons, replayed, restore } = options;
  const batches = lessonBatches([...lessons, ...replayed], settings.beta);
  const before = await measure(engine, options);
  let reason = "";
  let learningRate = settings.learningRate;
  for (let tries = 1; tries <= settings.tries; tries++, learningRate /= 4) {
    for (let step = 0; step < settings.steps; step++) {
      for (const { batch, loss } of batches) await engine.forwardBackward(batch, loss, { adapter });
      const adamw = { learningRate, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
      const stepped = await engine.optimStep({ ...adamw, adapter });
      if (stepped.type === "skipped") {
        await restore();
        return { type: "held", before, reason: `${stepped.tensor} became ${stepped.value}`, tries };
      }
    }
    const after = await measure(engine, options);
    const broken = brokenBound(before, after, settings);
    if (broken === null) return { type: "learned", before, after, learningRate, tries };
    reason = broken;
    await restore();
  }
  return { type: "held", before, reason, tries: settings.tries };
}

/** Which bound an update broke, in words; null if none. */
function brokenBound(before: Measured, after: Measured, { maxDrift, guardDrop }: UpdateSettings): string | null {
  if (!(after.drift <= maxDrift) && !(after.drift <= before.drift))
    return `the drift from the opened model would be ${after.drift.toFixed(3)} nats a token, above ${maxDrift}`;
  if (after.guard !== null && !(after.guard >= -guardDrop) && !(after.guard >= before.guard!))
    return `the guard answers would lose ${(-after.guard).toFixed(3)} nats a token, more than ${guardDrop}`;
  const gained = after.lessons.some((lesson, i) => gainOf(lesson, before.lessons[i]!) > 0);
  return gained || after.lessons.length === 0 ? null : "no lesson went the right way";
}

/** By how much the preferred side gained on the other one. */
export const gainOf = (after: LessonMeasure, before: LessonMeasure): number =>
  (after.good ?? 0) - (before.good ?? 0) - ((after.bad ?? 0) - (before.bad ?? 0));

/** Log-probs of the lessons' answers, drift over them and the watched answers, and the guard, under the adapter as it is. */
async function measure(engine: Engine, { adapter, lessons, watched }: UpdateOptions): Promise<Measured> {
  const own = lessons.flatMap(rowsOf);
  const rows = [...own, ...watched.answers, ...watched.guard];
  const logprobs = await engine.logprobs(rows.map(plainRow), { adapter });
  const sums = logprobs.map((row) => row.reduce((a, b) => a + b, 0));
  let next = 0;
  const take = (some: readonly LessonRow[]): number => some.reduce((sum) => sum + sums[next++]!, 0);
  const measured = lessons.map((lesson): LessonMeasure => {
    if (lesson.kind === "pair") return { kind: "pair", good: take(lesson.chosen), bad: take(lesson.rejected) };
    const sum = take(lesson.rows);
    return lesson.kind === "label" && !lesson.good ? { kind: "label", bad: sum } : { kind: lesson.kind, good: sum };
  });
  const watchedUntil = own.length + watched.answers.length;
  const ratios = rows.flatMap(({ reference }, r) => reference.map((value, t) => value - logprobs[r]![t]!));
  const drift = ratios.reduce((sum, ratio) => sum + Math.expm1(ratio) - ratio, 0) / Math.max(1, ratios.length);
  const guardRows = rows.slice(watchedUntil);
  const guarded = guardRows.flatMap(({ reference }, r) => reference.map((value, t) => logprobs[watchedUntil + r]![t]! - value));
  const guard = guarded.length === 0 ? null : guarded.reduce((a, b) => a + b, 0) / guarded.length;
  return { lessons: measured, drift, guard };
}
