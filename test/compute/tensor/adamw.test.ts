/** AdamW against torch.optim.AdamW over ten updates, without and with clipping of the global gradient norm. */
import { expect, test } from "vitest";
import { AdamW, type AdamWState } from "../../../src/compute/tensor/adamw.ts";
import { difference, goldenJson } from "../../fakes/golden.ts";

type Named = Readonly<Record<string, readonly number[]>>;
interface Step {
  readonly gradNorm: number;
  readonly clipped: boolean;
  readonly values: Named;
  readonly m: Named;
  readonly v: Named;
}
interface Golden {
  readonly settings: {
    readonly learningRate: number;
    readonly beta1: number;
    readonly beta2: number;
    readonly epsilon: number;
    readonly weightDecay: number;
    readonly weightDecayVectors: number;
  };
  readonly maxGradNorm: number;
  readonly start: Named;
  readonly gradients: readonly Named[];
  readonly plain: readonly Step[];
  readonly clipped: readonly Step[];
}
const golden = goldenJson<Golden>("adamw.json");
const names = Object.keys(golden.start);

const fresh = (): Map<string, AdamWState> =>
  new Map(
    names.map((name) => {
      const weight = Float32Array.from(golden.start[name]!);
      const zeros = (): Float32Array => new Float32Array(weight.length);
      const decay = name === "vector" ? golden.settings.weightDecayVectors : golden.settings.weightDecay;
      return [name, { weight, gradient: zeros(), first: zeros(), second: zeros(), decay }];
    }),
  );

for (const kind of ["plain", "clipped"] as const) {
  test(`${kind}: weights and moments after each of ten updates`, async () => {
    const adamw = await AdamW.compile();
    const states = fresh();
    for (const [k, expectedStep] of golden[kind].entries()) {
      for (const name of names) states.get(name)!.gradient.set(golden.gradients[k]![name]!);
      const gradientScale = kind === "plain" ? 1 : Math.min(1, golden.maxGradNorm / (expectedStep.gradNorm + 1e-6));
      await adamw.step([...states.values()], { ...golden.settings, step: k + 1, gradientScale });
      for (const name of names) {
        const { weight, first, second } = states.get(name)!;
        expect(difference(weight, expectedStep.values[name]!).max).toBeLessThan(1e-5);
        expect(difference(first, expectedStep.m[name]!).relative).toBeLessThan(1e-5);
        expect(difference(second, expectedStep.v[name]!).relative).toBeLessThan(1e-5);
      }
    }
    expect(golden[kind].length).toBe(10);
    await adamw.close();
  });
}

test("arrays longer than one piece are updated to the last element, and a rate of 0 changes moments alone", async () => {
  const size = (1 << 18) * 2 + 3;
  const state = (): AdamWState => ({
    weight: new Float32Array(size).fill(1),
    gradient: new Float32Array(size).fill(2),
    first: new Float32Array(size),
    second: new Float32Array(size),
    decay: 0,
  });
  const adamw = await AdamW.compile();
  const options = { beta1: 0.9, beta2: 0.95, epsilon: 0, step: 1, gradientScale: 1 };
  const [moved, still] = [state(), state()];
  await adamw.step([moved], { ...options, learningRate: 0.25 });
  await adamw.step([still], { ...options, learningRate: 0 });
  expect(moved.weight.every((w) => Math.abs(w - 0.75) < 1e-6)).toBe(true); // the first step is the rate times the sign
  expect(still.weight.every((w) => w === 1)).toBe(true);
  expect(still.first.every((m) => m === Math.fround(Math.fround(0.1) * 2))).toBe(true);
  await adamw.close();
});
