/** A reward whose easy part is collected while the answers stay as wrong as they were. */
import { expect, test } from "vitest";
import { scored } from "../../src/errors.ts";
import { gated, weighted } from "../../src/loop/reward/compose.ts";
import { rng, uniform } from "../../src/random.ts";
import { gradedParts, rewardGain, RewardPartsDetector, type GradedParts } from "../../src/train/reward-parts.ts";
import type { Group, Reward, Scored } from "../../src/types.ts";
import { answerOf, QUESTION } from "../fakes/credit.ts";

const graded = (score: number, components: Record<string, number>): Scored => ({
  trajectory: answerOf(3),
  verdict: scored(score, "", components),
});
const groupOf = (members: readonly Scored[]): Group => ({ task: QUESTION, members });

/** Step `t` of 40: each component is 1 in that share of eight rollouts, 0 in the others, which ones by chance. */
function step(t: number, shares: Readonly<Record<string, number>>, score: (parts: Record<string, number>) => number): Group[] {
  const members = Array.from({ length: 8 }, (_, i) => {
    const parts = Object.fromEntries(
      Object.entries(shares).map(([name, share]) => [name, uniform(rng(3, name, t), i) < share ? 1 : 0]),
    );
    return graded(score(parts), parts);
  });
  return [groupOf(members)];
}

const rising = (t: number): number => 0.1 + (0.9 * t) / 39;
const half = ({ format = 0, answer = 0 }: Record<string, number>): number => 0.5 * format + 0.5 * answer;

function said(steps: readonly (readonly Group[])[], detector = new RewardPartsDetector()): string[] {
  return steps.flatMap((groups) => detector.observe(groups) ?? []);
}
const steps = (shares: (t: number) => Record<string, number>, score = half): Group[][] =>
  Array.from({ length: 40 }, (_, t) => step(t, shares(t), score));

test("format rises from 0.1 to 1 over 40 steps, the answer stays at 0: told once, by name", () => {
  const notes = said(steps((t) => ({ format: rising(t), answer: 0 })));
  expect(notes.length).toBe(1);
  expect(notes[0]).toMatch(/^reward: `format` explains 100 % of the gain over \d\d steps \(0.\d\d -> [01].\d\d\); /);
  expect(notes[0]).toMatch(/; `answer` did not move \(0.00 -> 0.00\); make it a gate, or give it a tenth of the weight$/);
});

test("an answer that is right by chance now and then, but not more often, does not move", () => {
  const notes = said(steps((t) => ({ format: rising(t), answer: 0.2 })));
  expect(notes.map((note) => note.replace(/[\d.]+ -> [\d.]+/g, "x"))).toEqual([
    expect.stringMatching(/`format` explains \d+ % of the gain over \d+ steps \(x\); `answer` did not move \(x\)/),
  ]);
});

test("no alarm: both rise, the answer alone rises, the answer was right from the start, nothing rises", () => {
  expect(said(steps((t) => ({ format: rising(t), answer: rising(t) })))).toEqual([]);
  expect(said(steps((t) => ({ format: 0.3, answer: rising(t) })))).toEqual([]);
  expect(said(steps((t) => ({ format: rising(t), answer: 1 })))).toEqual([]);
  expect(said(steps(() => ({ format: 0.5, answer: 0 })))).toEqual([]);
  expect(said(steps((t) => ({ format: 1 - rising(t) / 2, answer: 0 })))).toEqual([]);
});

test("noise alone is no rise: none of 50 runs of 40 steps in which nothing happens", () => {
  const alarms = Array.from({ length: 50 }, (_, run) =>
    said(Array.from({ length: 40 }, (__, t) => step(1000 * run + t, { format: 0.5, answer: 0 }, half))),
  );
  expect(alarms.flat()).toEqual([]);
});

test("the answer moves although the format brings most: no alarm", () => {
  const score = ({ format = 0, answer = 0 }: Record<string, number>): number => 0.95 * format + 0.05 * answer;
  expect(said(steps((t) => ({ format: rising(t), answer: rising(t) }), score))).toEqual([]);
});

test("shares are those of the weights: 0.2 x 0.9 of 0.2 x 0.9 + 0.8 x 0.45", () => {
  // Rollout i of 20 has a component where i / 20 is below its share, so every mean is exact; the first and last quarters are constant.
  const level = (t: number, from: number, to: number): number => (t < 5 ? from : t >= 15 ? to : (from + to) / 2);
  const exact = Array.from({ length: 20 }, (_, t) => {
    const [format, answer] = [level(t, 0.1, 1), level(t, 0.05, 0.5)];
    const members = Array.from({ length: 20 }, (__, i) => {
      const parts = { format: Number(i / 20 < format), answer: Number(((i * 7) % 20) / 20 < answer) };
      return graded(0.2 * parts.format + 0.8 * parts.answer, parts);
    });
    return gradedParts([groupOf(members)]);
  });
  const gain = rewardGain(exact)!;
  expect(gain.total).toBeCloseTo(0.2 * 0.9 + 0.8 * 0.45, 10);
  expect(gain.parts.map(({ name, share, flat }) => [name, Number(share.toFixed(6)), flat])).toEqual([
    ["format", 0.333333, false],
    ["answer", 0.666667, false],
  ]);
});

test("held-out success stands for the answer where no component does; one evaluation alone says nothing", () => {
  const score = ({ style = 0, length = 0 }: Record<string, number>): number => (style + length) / 2;
  const all = steps((t) => ({ style: rising(t), length: 0.5 }), score);
  const told = (evaluations: readonly number[]): string[] => {
    const detector = new RewardPartsDetector();
    const held = evaluations.map((success) => ({ success }));
    return all.flatMap((groups, t) => detector.observe(groups, held[Math.floor((t * held.length) / 40)]) ?? []);
  };
  expect(told([0.25, 0.25, 0.25])).toEqual([
    expect.stringMatching(/^reward: `style` explains \d+ % of the gain over \d+ steps .*; held-out success did not rise \(0.25 -> 0.25\)/),
  ]);
  expect(told([0.25])).toEqual([]);
  expect(told([0.25, 0.3, 0.4])).toEqual([]);
});

test("parts of parts are not components of their own, and a part that is missing in some rollouts is left out", () => {
  const inner = gradedParts([groupOf([graded(1, { format: 1, "format.tags": 1, answer: 0 })])]);
  expect(inner).toEqual([{ score: 1, parts: { format: 1, answer: 0 } }]);
  const unscored: Scored = { trajectory: answerOf(3), verdict: { type: "unscorable", reason: "no number" } };
  expect(gradedParts([groupOf([unscored])])).toEqual([]);
  const mixed = Array.from({ length: 20 }, (_, t): GradedParts[] => [
    { score: t, parts: { format: t } },
    { score: t, parts: { format: t, answer: 0 } },
  ]);
  expect(rewardGain(mixed)).toBeUndefined();
});

test("through composed rewards: a weighted format is told, the same format as a gate is not", async () => {
  const part = (word: string): Reward => ({ messages }) => scored(messages[0]!.content.includes(word) ? 1 : 0, word);
  const sum = weighted({ format: { reward: part("form"), weight: 0.5 }, answer: { reward: part("right"), weight: 0.5 } });
  const gate = gated({ format: part("form") }, "answer", part("right"));
  const play = async (reward: Reward): Promise<string[]> => {
    const all: Group[][] = [];
    for (let t = 0; t < 40; t++) {
      const members = Array.from({ length: 10 }, async (_, i): Promise<Scored> => {
        const content = i < 1 + Math.floor((9 * t) / 39) ? "form" : "";
        const verdict = await reward({ task: QUESTION, messages: [{ role: "assistant", content }], turns: [] });
        return { trajectory: answerOf(3), verdict };
      });
      all.push([groupOf(await Promise.all(members))]);
    }
    return said(all);
  };
  expect((await play(sum)).length).toBe(1);
  expect(await play(gate)).toEqual([]);
});
