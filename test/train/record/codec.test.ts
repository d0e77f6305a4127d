import { expect, test } from "vitest";
import { finite } from "../../../src/errors.ts";
import { rng, uniform } from "../../../src/random.ts";
import { decodeMetricsRow, encodeMetricsRow, toColumns } from "../../../src/train/record/metrics.ts";
import { decodeRollout, encodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import type { SampledSpan, Scored } from "../../../src/types.ts";
import { fakeCredit, fakeScored, fakeTrajectory } from "../../fakes/rollouts.ts";

test("a rollout comes back equal, with credit and without", () => {
  const rollout = fakeScored("r1");
  const credit = fakeCredit(rollout, -1 / 3);
  expect(decodeRollout(encodeRollout(rollout, credit), "line 1")).toEqual({ scored: rollout, credit });
  const unscorable: Scored = { trajectory: rollout.trajectory, verdict: { type: "unscorable", reason: "no answer" } };
  expect(decodeRollout(encodeRollout(unscorable, null), "line 1")).toEqual({ scored: unscorable, credit: null });
});

test("float32 numbers keep every bit and are written short", () => {
  const key = rng(1);
  const logprobs = Array.from({ length: 2000 }, (_, i) => Math.fround(Math.log(uniform(key, i) + 1e-9) * 10 ** ((i % 9) - 4)));
  const base = fakeTrajectory("r1");
  const span = { ...(base.rows[0]?.spans[1] as SampledSpan), ids: logprobs.map((_, i) => i), logprobs };
  const rollout: Scored = { trajectory: { ...base, rows: [{ spans: [span] }] }, verdict: { type: "unscorable", reason: "" } };
  const line = encodeRollout(rollout, { trajectory: rollout.trajectory, advantages: [Float32Array.from(logprobs)] });
  const back = decodeRollout(line, "line 1");
  expect((back.scored.trajectory.rows[0]?.spans[0] as SampledSpan).logprobs).toEqual(logprobs);
  expect(back.credit?.advantages[0]).toEqual(Float32Array.from(logprobs));
  // 0.1 as float32 is 0.10000000149011612; one digit is enough to find it again.
  expect(encodeRollout(fakeScored("r1"), fakeCredit(fakeScored("r1"), 0.1))).toContain('"advantages":[[0.1,0.1,0.1,0.1,0.1]]');
});

test("what does not fit its tokens or is not finite is refused", () => {
  const rollout = fakeScored("r1");
  expect(() => encodeRollout(rollout, { trajectory: rollout.trajectory, advantages: [new Float32Array(4)] })).toThrow(
    "trajectory r1: row 0: expected 5 advantages, got 4",
  );
  expect(() => encodeRollout(rollout, fakeCredit(rollout, Number.NaN))).toThrow("expected a finite number, got NaN");
  const line = encodeRollout(rollout, null);
  expect(() => decodeRollout(line.slice(0, -5), "t.jsonl line 3")).toThrow("t.jsonl line 3: expected a recorded rollout, got damaged JSON");
  expect(() => decodeRollout(line.replace('"sample":0', '"sample":"0"'), "x")).toThrow("got a wrong trajectory.sample");
  expect(finite(1, "x")).toBe(1);
});

test("a metric that is not finite is written as a string and comes back", () => {
  const row = { step: 3, loss: Number.NaN, kl: Number.POSITIVE_INFINITY, "reward/mean": 0.5 };
  expect(encodeMetricsRow(row)).toBe('{"step":3,"loss":"NaN","kl":"Infinity","reward/mean":0.5}');
  expect(decodeMetricsRow(encodeMetricsRow(row), "m")).toEqual(row);
  expect(() => decodeMetricsRow('{"step":1,"loss":null}', "m line 2")).toThrow("m line 2: expected an object of numbers");
  expect(() => decodeMetricsRow('{"loss":1}', "m")).toThrow("expected a step >= 0, got undefined");
});

test("rows of one step merge into columns aligned with the steps", () => {
  const { steps, columns } = toColumns([
    { step: 0, success: 0.25 },
    { step: 1, loss: 2 },
    { step: 2, loss: 1 },
    { step: 2, success: 0.75 },
  ]);
  expect(steps).toEqual([0, 1, 2]);
  expect(columns.get("loss")).toEqual([undefined, 2, 1]);
  expect(columns.get("success")).toEqual([0.25, undefined, 0.75]);
});
