import { expect, test } from "vitest";
import { finite, scored } from "../../../src/errors.ts";
import { turnRewards, weighted } from "../../../src/loop/reward/compose.ts";
import { scoreTrajectory } from "../../../src/loop/reward/score.ts";
import { toolShaping } from "../../../src/loop/reward/tool-shaping.ts";
import { TOOL_MISTAKES, type ToolExpectation } from "../../../src/tool-use.ts";
import { decodeRollout, encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import type { Message, Reward, Trajectory, Turn } from "../../../src/types.ts";

type Episode = Parameters<Reward>[0];
const fixed =
  (value: number): Reward =>
  () =>
    scored(value, `fixed ${value}`);
const task = { id: "t", prompt: [], data: {} };
const empty: Episode = { task, messages: [], turns: [] };
const range = (low: number, high: number) => [low, high] as const;

test("shaping that could outweigh success is refused when the reward is made", () => {
  const success = { reward: fixed(1), weight: 1, bounds: range(0, 1) };
  const shaping = (weight: number, bounds = range(0, 1)) => ({ reward: fixed(0), weight, bounds, shaping: true });
  expect(() => weighted({ success, format: shaping(0.5), length: shaping(0.4, range(-1, 0)) })).not.toThrow();
  expect(() => weighted({ success, format: shaping(0.5), length: shaping(0.5, range(-1, 0)) })).toThrow(
    "shaping: expected less than 1 in all, which is what success is worth, got 1; lower the weights of the shaping parts",
  );
  expect(() => weighted({ success, format: shaping(-2) })).toThrow(/^shaping: expected less than 1/);
  expect(() => weighted({ success: { ...success, weight: 0.1 }, format: shaping(0.2) })).toThrow(/^shaping: expected less than 0.1/);
  expect(() => weighted({ format: shaping(0.1) })).toThrow(/a part that is not shaping/);
  expect(() => weighted({ success, format: { reward: fixed(0), weight: 0.1, shaping: true } })).toThrow(/give bounds: \[0, 1\]/);
  expect(() => weighted({ success: { reward: fixed(1), weight: 1 }, format: shaping(0.1) })).toThrow(/reward component success: bounds/);
  expect(() => weighted({ success: { ...success, bounds: range(1, 0) } })).toThrow(/two finite numbers, the lower first/);
});

test("a score outside its bounds is the grader's fault and no reward", async () => {
  const reward = weighted({
    success: { reward: fixed(1), weight: 1, bounds: [0, 1] },
    style: { reward: fixed(7), weight: 0.1, bounds: [0, 1], shaping: true },
  });
  await expect(reward(empty)).rejects.toThrow("reward component style: expected a score from 0 to 1, got 7");
});

const turnOf = (reward?: number): Turn => ({
  row: 0,
  span: 1,
  message: { role: "assistant", content: "x" },
  parse: "answer",
  replies: [],
  ...(reward === undefined ? {} : { reward: finite(reward, "test") }),
});

test("rewards of single turns and of the whole, each in the record with its explanation", async () => {
  const reward = weighted({ final: { reward: fixed(1), weight: 1 }, turns: { reward: turnRewards(), weight: 0.5 } });
  const turns = [turnOf(0.25), turnOf(), turnOf(-0.5)];
  const trajectory: Trajectory = {
    id: "r",
    task,
    sample: 0,
    rows: [],
    turns,
    messages: [],
    end: { type: "done" },
    measures: {},
    seconds: 0,
  };
  const graded = await scoreTrajectory(reward, trajectory);
  expect(graded.verdict).toEqual({
    type: "scored",
    score: 0.875,
    components: { final: 1, turns: -0.25 },
    explanation: "final 1 (fixed 1); turns -0.25 (turn 1: 0.25, turn 3: -0.5)",
  });
  expect(decodeRollout(encodeRollout(graded, null), "test").scored.verdict).toEqual(graded.verdict);
  const unscorable = await scoreTrajectory(() => ({ type: "unscorable", reason: "no gold" }), trajectory);
  expect(decodeRollout(encodeRollout(unscorable, null), "test").scored.verdict).toEqual({ type: "unscorable", reason: "no gold" });
});

const asks = (id: string, name: string): Message => ({ role: "assistant", content: "", toolCalls: [{ id, name, arguments: {} }] });
const says = (id: string, content: string): Message => ({ role: "tool", content, toolCallId: id });

test("mistakes with tools take their shares, never more than 1", async () => {
  const expects = () => ({ needs: [{ tool: "add", result: "3" }] });
  const reward = toolShaping({ expects, penalties: { missed: 0.5, wrongTool: 0.25, malformed: 0.25 } });
  const score = async (messages: Message[], turns: Turn[] = []) => ((await reward({ task, messages, turns })) as { score: number }).score;
  expect(await score([asks("1", "add"), says("1", "3")])).toBe(0);
  expect(await score([])).toBe(-0.5);
  expect(await score([asks("1", "sub"), says("1", 'error: no tool "sub"; tools: add')])).toBe(-0.75);
  expect(await score([asks("1", "add"), says("1", "3")], [{ ...turnOf(), parse: "malformedToolCall" }])).toBe(-0.25);
  expect(() => toolShaping({ expects, penalties: { missed: 0.8, wrongTool: 0.3 } })).toThrow(/add up to at most 1/);
  expect(() => toolShaping({ penalties: { missed: 0.5 } })).toThrow(/got missed; give expects, which says what a task needs/);
  const known = "wrongTool, malformed, wrongArguments, resultIgnored";
  expect(() => toolShaping({ penalties: { typo: 0.5 } as object })).toThrow(`expected ${known}, got typo`);
});

/** One episode for each set of mistakes that can be made together, by what it needs and does. */
function* episodes(): Generator<{ readonly expects: () => ToolExpectation; readonly episode: Episode }> {
  const none = 'error: no tool "none"; tools: add, sub';
  const calls = [["add", "3"], ["add", "4"], ["sub", "1"], ["none", none]] as const;
  for (const needs of [[], [{ tool: "add", result: "3" }]])
    for (let made = 0; made < 2 ** calls.length; made++)
      for (const broken of [false, true])
        for (const answer of ["3", "9"]) {
          const chosen = calls.filter((_, i) => (made >> i) % 2 === 1);
          const messages = chosen.flatMap(([name, result], i) => [asks(String(i), name), says(String(i), result)]);
          const final: Turn = { ...turnOf(), message: { role: "assistant", content: answer } };
          const turns = [...(broken ? [{ ...turnOf(), parse: "malformedToolCall" as const }] : []), final];
          yield { expects: () => ({ needs }), episode: { task, messages, turns } };
        }
}

test("whatever mistakes are made with tools, a right answer is worth more than a wrong one without any", async () => {
  const even = (share: number): number[] => Array.from({ length: 6 }, () => share);
  const shares = [even(1 / 6), even(0.1), [1, 0, 0, 0, 0, 0], [0, 0, 0, 0.1, 0.2, 0.7]];
  const seen = new Set<string>();
  for (const given of shares) {
    const penalties = Object.fromEntries(TOOL_MISTAKES.map((name, i) => [name, given[i]!]));
    for (const weight of [0.01, 0.5, 0.999]) {
      const scores: Record<"right" | "wrong", number[]> = { right: [], wrong: [] };
      for (const { expects, episode } of episodes()) {
        const shaping = { reward: toolShaping({ expects, penalties }), weight, bounds: range(-1, 0), shaping: true };
        for (const [kind, success] of [["right", 1], ["wrong", 0]] as const) {
          const verdict = await weighted({ success: { reward: fixed(success), weight: 1, bounds: range(0, 1) }, shaping })(episode);
          if (verdict.type !== "scored") throw new Error(verdict.reason);
          scores[kind].push(verdict.score);
          for (const name of TOOL_MISTAKES) if (verdict.components[`shaping.${name}`] === 1) seen.add(name);
        }
      }
      expect(Math.min(...scores.right)).toBeGreaterThan(Math.max(...scores.wrong));
    }
  }
  expect([...seen].sort()).toEqual([...TOOL_MISTAKES].sort());
});
