import { expect, test } from "vitest";
import { labelledBatch, turnScorer } from "../../../src/train/process/turn-scorer.ts";
import type { LabelledSteps } from "../../../src/train/process/label-steps.ts";
import type { TrainRow } from "../../../src/types.ts";
import { turnsOf } from "../../fakes/turns.ts";

// Row 1: context 2, turn of 2 tokens, context 2, turn of 1 token. Row 2: context 2, turn of 3 tokens.
const trajectory = turnsOf([{ tokens: 2, reply: "r" }, { tokens: 1, reply: "s" }, { tokens: 3, newRow: true }]);

test("a turn is judged after its own tokens, or where the environment has answered", async () => {
  const asked: TrainRow[] = [];
  // The head's value is the position over ten.
  const values = (rows: readonly TrainRow[], { adapter }: { adapter: string }) => {
    expect(adapter).toBe("judge");
    asked.push(...rows);
    return Promise.resolve(rows.map(({ trained }) => Float32Array.from(trained, (position) => position / 10)));
  };
  const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));
  const [turn, again] = await turnScorer({ adapter: "judge", at: "turn" })([trajectory, trajectory], { policy: { engine: { values } } });
  expect(asked.slice(0, 2).map(({ ids, trained }) => [ids.length, ...trained])).toEqual([[7, 4, 7], [5, 5]]);
  [0.4, 0.7, 0.5].forEach((value, t) => expect(turn![t]).toBeCloseTo(sigmoid(value), 6));
  expect(again).toEqual(turn);
  const [reply] = await turnScorer({ adapter: "judge", at: "reply" })([trajectory], { policy: { engine: { values } } });
  // The first answer stands in the row; what follows the second is in the next row, and nothing follows the third.
  [0.6, 0.7, 0.5].forEach((value, t) => expect(reply![t]).toBeCloseTo(sigmoid(value), 6));
});

test("a batch of labelled turns has each label at its place and a mean over all of them", () => {
  const labelled = (labels: readonly (number | null)[]): LabelledSteps => ({
    trajectory, labels, prefixes: [], steps: [], completions: 0, sampledTokens: 0,
  });
  const batch = labelledBatch([labelled([1, 0.25, null]), labelled([null, 0, 0.5])], "turn")!;
  expect(batch.scalars).toEqual({ tokens: 4 });
  const list = (row: TrainRow, field: string): number[] => [...row.fields[field]!];
  const shown = batch.units.map(({ rows }) =>
    rows.map((row) => ({ trained: [...row.trained], label: list(row, "label"), weight: list(row, "weight") })),
  );
  expect(shown).toEqual([
    [{ trained: [4, 7], label: [1, 0.25], weight: [0.25, 0.25] }],
    [{ trained: [7], label: [0], weight: [0.25] }, { trained: [5], label: [0.5], weight: [0.25] }],
  ]);
  expect(labelledBatch([labelled([null, null, null])], "turn")).toBeNull();
});
