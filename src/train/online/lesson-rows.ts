/** Drafts -> lessons: the opened model's log-probs are taken once and kept with the rows. */
import type { EncodedDialogue } from "../../compute/text/dialogue.ts";
import type { Engine } from "../../types.ts";
import type { Draft } from "./feedback.ts";
import type { Lesson, LessonRow } from "./journal.ts";
import { plainRow } from "./lesson-batch.ts";

/** `reference` names the opened model in the engine. */
export async function referenceRows(engine: Engine, rows: readonly EncodedDialogue[], reference: string): Promise<LessonRow[]> {
  const logprobs = await engine.logprobs(rows.map(plainRow), { adapter: reference });
  return rows.map(({ ids, trained }, r) => ({ ids: [...ids], trained: [...trained], reference: [...logprobs[r]!] }));
}

interface LessonOptions {
  readonly reference: string;
  readonly weight: number;
  readonly likelihood: number;
}

export async function lessonsOf(engine: Engine, drafts: readonly Draft[], options: LessonOptions): Promise<Lesson[]> {
  const { reference, weight, likelihood } = options;
  const known = await referenceRows(engine, drafts.flatMap(rowsOfDraft), reference);
  let next = 0;
  const take = (rows: readonly EncodedDialogue[]): LessonRow[] => known.slice(next, (next += rows.length));
  return drafts.map((draft): Lesson => {
    const shared = { weight: weight * draft.weight };
    switch (draft.kind) {
      case "pair":
        return {
          kind: "pair",
          ...shared,
          likelihood: draft.likelihood ?? likelihood,
          chosen: take(draft.chosen),
          rejected: take(draft.rejected),
        };
      case "label":
        return { kind: "label", ...shared, rows: take(draft.rows), good: draft.good };
      case "dialogue":
        return { kind: "dialogue", ...shared, rows: take(draft.rows) };
    }
  });
}

const rowsOfDraft = (draft: Draft): readonly EncodedDialogue[] =>
  draft.kind === "pair" ? [...draft.chosen, ...draft.rejected] : draft.rows;
