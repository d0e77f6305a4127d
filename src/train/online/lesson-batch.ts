/** Lessons -> one batch for each loss that they need. The weights of all lessons of an update sum to 1. */
import * as o from "../../compute/tensor/ops.ts";
import { labelBatch, pairBatch } from "../../loop/batch/preference.ts";
import { crossEntropy } from "../../loop/loss/cross-entropy.ts";
import { dpoLoss, ktoLoss } from "../../loop/loss/preference.ts";
import type { Batch, Loss, TrainRow, Unit } from "../../types.ts";
import type { Lesson, LessonRow } from "./journal.ts";

interface Part {
  readonly batch: Batch;
  readonly loss: Loss;
}

export const rowsOf = (lesson: Lesson): LessonRow[] => (lesson.kind === "pair" ? [...lesson.chosen, ...lesson.rejected] : lesson.rows);

/** Ids and trained positions, as lists or as arrays of integers. */
type Encoded = Readonly<Record<"ids" | "trained", ArrayLike<number>>>;

const encoded = ({ ids, trained }: Encoded) => ({ ids: Int32Array.from(ids), trained: Int32Array.from(trained) });
const tokensOf = (rows: readonly LessonRow[]): number => rows.reduce((sum, { trained }) => sum + trained.length, 0);

/** A row to be scored, without fields. */
export const plainRow = (row: Encoded): TrainRow => ({ ...encoded(row), fields: {}, temperature: 1 });

/** `beta` is DPO's and KTO's. */
export function lessonBatches(lessons: readonly Lesson[], beta: number): Part[] {
  const total = lessons.reduce((sum, { weight }) => sum + weight, 0);
  const of = <K extends Lesson["kind"]>(kind: K): Extract<Lesson, { kind: K }>[] =>
    lessons.filter((lesson): lesson is Extract<Lesson, { kind: K }> => lesson.kind === kind);
  const [pairs, labels, dialogues] = [of("pair"), of("label"), of("dialogue")];
  const parts: Part[] = [];
  if (pairs.length > 0) {
    const sides = pairs.map(({ chosen, rejected }) => ({ chosen: chosen.map(encoded), rejected: rejected.map(encoded), margin: 0 }));
    parts.push({ batch: complete(pairBatch(sides), pairs, total), loss: preferredAndLikely(beta) });
  }
  if (labels.length > 0) {
    const batch = complete(labelBatch(labels.map(({ rows, good }) => ({ rows: rows.map(encoded), good }))), labels, total);
    // Answers to one prompt have no mismatched ones to estimate the baseline from; 0 is what it is clamped to.
    const scalars = { ...batch.scalars, klBaseline: 0 };
    parts.push({ batch: { ...batch, scalars }, loss: ktoLoss({ beta, desirableWeight: 1, undesirableWeight: 1 }) });
  }
  if (dialogues.length > 0) parts.push({ batch: dialogueBatch(dialogues, total), loss: crossEntropy });
  return parts;
}

/** DPO, and the chosen answer's log-prob by its "likelihood" (RPO): one pass for both. */
function preferredAndLikely(beta: number): Loss {
  const dpo = dpoLoss({ variant: "sigmoid", beta, labelSmoothing: 0, ipoLength: "mean", sign: "sign" });
  return {
    key: `${dpo.key}/likelihood`,
    build: (x) => {
      const { loss, metrics } = dpo.build(x);
      return { loss: o.sub(loss, o.sum(o.mul(x.field("likelihood"), x.logprobs))), metrics };
    },
  };
}

/** Adds the reference, and makes each unit's weight its lesson's share; the batch has one unit a lesson, of equal weight. */
function complete(batch: Batch, lessons: readonly Exclude<Lesson, { kind: "dialogue" }>[], total: number): Batch {
  const units = batch.units.map(({ rows }, u): Unit => {
    const lesson = lessons[u]!;
    const factor = (lesson.weight / total) * lessons.length;
    const given = rowsOf(lesson);
    const chosen = lesson.kind === "pair" ? lesson.chosen : [];
    const likelihood = lesson.kind === "pair" ? (lesson.likelihood * lesson.weight) / total / tokensOf(chosen) : 0;
    const filled = rows.map((row, r): TrainRow => {
      const weight = row.fields["weight"]!.map((value) => value * factor);
      const likely = new Float32Array(row.trained.length).fill(r < chosen.length ? likelihood : 0);
      return { ...row, fields: { ...row.fields, weight, likelihood: likely, reference: Float32Array.from(given[r]!.reference) } };
    });
    return { rows: filled };
  });
  return { ...batch, units };
}

/** Cross-entropy a token of each dialogue, times its share. */
function dialogueBatch(lessons: readonly Extract<Lesson, { kind: "dialogue" }>[], total: number): Batch {
  const units = lessons.map(({ rows, weight }): Unit => {
    const share = weight / total / tokensOf(rows);
    return { rows: rows.map((row) => ({ ...plainRow(row), fields: { weight: new Float32Array(row.trained.length).fill(share) } })) };
  });
  return { units, scalars: {} };
}
