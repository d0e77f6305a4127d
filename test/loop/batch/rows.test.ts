import { expect, test } from "vitest";
import { broadcastCredit } from "../../../src/loop/advantage/broadcast.ts";
import { buildBatch, isTruncated, type BatchOptions } from "../../../src/loop/batch/rows.ts";
import type { Credit, EpisodeEnd } from "../../../src/types.ts";
import { rendererOf } from "../../fakes/chat-families.ts";
import { answerOf, context, sampled, trajectoryOf } from "../../fakes/credit.ts";

const options: BatchOptions = { reduction: "token-mean", maskTruncated: false, maxLength: 8, skipZero: true };
const rowsOf = (credit: Credit) => buildBatch([[credit]], options).batch!.units[0]!.rows;

test("the trained positions of a conversation with a tool are its four sampled tokens", () => {
  const { tokenizer } = rendererOf("chatml");
  const end = tokenizer.idOf("<|im_end|>")!;
  const [ok, seven] = [tokenizer.encode("ok").at(-1)!, tokenizer.encode("7").at(-1)!];
  const prompt = tokenizer.encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  const glue = tokenizer.encode("\n<|im_start|>user\n<tool_response>7</tool_response><|im_end|>\n<|im_start|>assistant\n");
  const spans = [context(...prompt), sampled([ok, end], [-0.25, -0.5]), context(...glue), sampled([seven, end], [-1, -2])];
  const [row] = rowsOf(broadcastCredit(trajectoryOf([{ spans }]), 2));
  expect([...row!.ids]).toEqual([...prompt, ok, end, ...glue, seven, end]);
  expect([...row!.trained].map((t) => row!.ids[t])).toEqual([ok, end, seven, end]);
  const second = prompt.length + 2 + glue.length;
  expect([...row!.trained]).toEqual([prompt.length, prompt.length + 1, second, second + 1]);
  // The line break after the first end of turn is the template's.
  expect(tokenizer.decode([row!.ids[prompt.length + 2]!])).toBe("\n");
  expect(Object.fromEntries(Object.entries(row!.fields).map(([name, values]) => [name, [...values]]))).toEqual({
    advantage: [2, 2, 2, 2],
    old: [-0.25, -0.5, -1, -2],
    weight: [0.25, 0.25, 0.25, 0.25],
  });
});

test("a conversation that became two rows is trained as two rows of one unit, with one divisor", () => {
  const rows = [{ spans: [context(1, 2), sampled([3, 4])] }, { spans: [context(1, 2, 4, 5), sampled([6, 7, 8])] }];
  const trained = rowsOf(broadcastCredit(trajectoryOf(rows), 1));
  expect(trained.map(({ trained: positions }) => [...positions])).toEqual([[2, 3], [4, 5, 6]]);
  expect(trained.map(({ fields }) => fields["weight"]![0])).toEqual([Math.fround(0.2), Math.fround(0.2)]);
});

test("merged turns are never cut to the limit of one turn: 6 sampled, 3 of a tool and 6 sampled train 12", () => {
  const turn = (from: number) => Array.from({ length: 6 }, (_, i) => from + i);
  const spans = [context(1, 2), sampled(turn(10)), context(50, 51, 52), sampled(turn(20))];
  const [row] = rowsOf(broadcastCredit(trajectoryOf([{ spans }]), 1));
  expect([...row!.trained].map((t) => row!.ids[t])).toEqual([...turn(10), ...turn(20)]);
  expect(row!.ids.length).toBe(17);
});

test("an answer that was cut has the sampled tokens and no end of turn that nobody sampled", () => {
  const cut = trajectoryOf([{ spans: [context(1, 2), { ...sampled([5, 6, 7]), finish: { type: "length" } }] }], { type: "length" });
  const [row] = rowsOf(broadcastCredit(cut, 1));
  expect([[...row!.ids], [...row!.trained]]).toEqual([[1, 2, 5, 6, 7], [2, 3, 4]]);
});

test("each turn's advantages stand at that turn's tokens", () => {
  const trajectory = trajectoryOf([{ spans: [context(1), sampled([5, 6]), context(9), sampled([7, 8])] }]);
  const of = (...values: number[]): number[] => {
    const [row] = rowsOf({ trajectory, advantages: [Float32Array.from(values)] });
    return [...row!.fields["advantage"]!];
  };
  expect(of(2, 2, 0, 0)).toEqual([2, 2, 0, 0]);
  expect(of(0, 0, 2, 2)).toEqual([0, 0, 2, 2]);
});

test("advantages that do not fit the tokens are refused with both numbers", () => {
  const trajectory = answerOf(3);
  const refused = (...lengths: number[]) => () =>
    buildBatch([[{ trajectory, advantages: lengths.map((length) => new Float32Array(length).fill(1)) }]], options);
  const want = "trajectory t row 0: expected 3 advantages and log-probs, one for each sampled token, got";
  expect(refused(2)).toThrow(`${want} 2 and 3`);
  expect(refused(1)).toThrow(`${want} 1 and 3`);
  // Also where the row would have been left out.
  expect(refused(0)).toThrow(`${want} 0 and 3`);
  expect(refused()).toThrow("trajectory t: expected advantages of 1 rows, got of 0");
  const short = trajectoryOf([{ spans: [context(1), sampled([5, 6], [-1])] }]);
  expect(() => buildBatch([[broadcastCredit(short, 1)]], options)).toThrow(
    "expected 2 advantages and log-probs, one for each sampled token, got 2 and 1",
  );
});

test("a row of zero advantages is left out of the passes and stays in the divisor", () => {
  const credits = [[broadcastCredit(answerOf(4), 1), broadcastCredit(answerOf(6), 0)]];
  const built = buildBatch(credits, options);
  expect([built.tokens, built.completions, built.batch!.units[0]!.rows.length]).toEqual([10, 2, 1]);
  expect(built.batch!.units[0]!.rows[0]!.fields["weight"]![0]).toBe(Math.fround(0.1));
  expect(built.batch!.scalars).toEqual({ tokens: 10 });
  const all = buildBatch(credits, { ...options, skipZero: false });
  expect(all.batch!.units[0]!.rows.length).toBe(2);
});

test("a truncated answer that is masked leaves the rows and the divisor alike", () => {
  const cut = { type: "length" } as const;
  const credits = [[broadcastCredit(answerOf(4), 1), broadcastCredit(answerOf(6, cut), 1)]];
  const built = buildBatch(credits, { ...options, maskTruncated: true });
  expect([built.tokens, built.completions]).toEqual([4, 1]);
  const rows = built.batch!.units.flatMap((unit) => unit.rows);
  expect(rows.map(({ fields }) => [...fields["weight"]!])).toEqual([[0.25, 0.25, 0.25, 0.25]]);
  const none = buildBatch([[broadcastCredit(answerOf(6, cut), 1)]], { ...options, maskTruncated: true });
  expect(none).toEqual({ batch: null, tokens: 0, completions: 0 });
});

test("done alone is an end of its own", () => {
  const ends: EpisodeEnd[] = [
    { type: "length" },
    { type: "turnLimit" },
    { type: "timeout" },
    { type: "error", boundary: "environment", message: "" },
  ];
  expect(ends.map((end) => isTruncated(answerOf(1, end)))).toEqual([true, true, true, true]);
  expect(isTruncated(answerOf(1))).toBe(false);
});
