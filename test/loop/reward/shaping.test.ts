import { expect, test } from "vitest";
import { finite, scored } from "../../../src/errors.ts";
import { turnRewards, weighted } from "../../../src/loop/reward/compose.ts";
import { scoreTrajectory } from "../../../src/loop/reward/score.ts";
import { toolShaping } from "../../../src/loop/reward/tool-shaping.ts";
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
  const reward = toolShaping({
    needs: () => [{ tool: "add", result: "3" }],
    penalties: { toolMissed: 0.5, wrongTool: 0.25, malformedCall: 0.25 },
  });
  const score = async (messages: Message[], turns: Turn[] = []) => ((await reward({ task, messages, turns })) as { score: number }).score;
  expect(await score([asks("1", "add"), says("1", "3")])).toBe(0);
  expect(await score([])).toBe(-0.5);
  expect(await score([asks("1", "sub"), says("1", 'error: no tool "sub"; tools: add')])).toBe(-0.75);
  expect(await score([asks("1", "add"), says("1", "3")], [{ ...turnOf(), parse: "malformedToolCall" }])).toBe(-0.25);
  expect(() => toolShaping({ needs: () => [], penalties: { toolMissed: 0.8, wrongTool: 0.3 } })).toThrow(/add up to at most 1/);
});
