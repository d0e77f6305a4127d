/** GRPO's loss, its parts and every gradient against PyTorch: three reductions, two temperatures, LoRA and full. */
import { expect, test } from "vitest";
import { grpo } from "../../../src/algo/grpo.ts";
import type { Batch } from "../../../src/types.ts";
import { goldenEngine, storedGradients, trainRow } from "../../fakes/engines.ts";
import { difference, goldenJson, goldenTensors } from "../../fakes/golden.ts";

type PerToken = readonly (readonly number[])[];
interface Golden {
  readonly temperature: number;
  readonly clipLow: number;
  readonly clipHigh: number;
  readonly beta: number;
  readonly lmax: number;
  readonly rows: readonly { readonly ids: readonly number[]; readonly trained: readonly number[] }[];
  readonly advantages: { readonly scaled: readonly number[] };
  readonly old: PerToken;
  readonly reference: PerToken;
  readonly logprobs: PerToken;
  readonly loss: Readonly<Record<string, number>>;
  readonly perToken: { readonly clipped: PerToken; readonly k3: PerToken };
  readonly means: Readonly<Record<string, number>>;
}

/** One token's weight in the loss, of a row of `length` trained tokens. */
const weights: Readonly<Record<string, (length: number, golden: Golden) => number>> = {
  tokenMean: () => 1 / 36,
  sequenceMean: (length) => 1 / (6 * length),
  constantDivisor: (_, { lmax }) => 1 / (6 * lmax),
};

function batchOf(golden: Golden, weight: (length: number, golden: Golden) => number): Batch {
  const rows = golden.rows.map(({ ids, trained }, i) => {
    const same = (value: number): number[] => trained.map(() => value);
    const fields = {
      old: golden.old[i]!,
      reference: golden.reference[i]!,
      advantage: same(golden.advantages.scaled[i]!),
      weight: same(weight(trained.length, golden)),
    };
    return trainRow(ids, trained, { temperature: golden.temperature, fields });
  });
  return { units: [{ rows: rows.slice(0, 3) }, { rows: rows.slice(3) }], scalars: { tokens: 36 } };
}

for (const name of ["llama-t1", "llama-t0.7", "llama-lora-t1", "llama-lora-t0.7"]) {
  test(`${name}: loss, log-probs, measures and gradients`, async () => {
    const golden = goldenJson<Golden>(`grpo/${name}.json`);
    const stored = await goldenTensors(`grpo/${name}.safetensors`);
    const given = await goldenEngine("llama", name.includes("lora") ? "stored-lora" : "full");
    const loss = grpo({ clipLow: golden.clipLow, clipHigh: golden.clipHigh, klCoef: golden.beta }).loss;
    for (const [reduction, weight] of Object.entries(weights)) {
      const result = await given.engine.forwardBackward(batchOf(golden, weight), loss);
      expect(Math.abs(result.loss - golden.loss[reduction]!), reduction).toBeLessThan(1e-5);
      const logprobs = result.logprobs.flat();
      for (const [i, values] of golden.logprobs.entries()) expect(difference(logprobs[i]!, values).max).toBeLessThan(5e-5);
      expect(Math.abs(result.metrics["clipFraction"]! - golden.means["clipFraction"]!)).toBeLessThan(1e-6);
      expect(Math.abs(result.metrics["kl/reference"]! - golden.means["k3"]!)).toBeLessThan(1e-4);
      const found = storedGradients(given);
      const expectedNames = [...stored.keys()].filter((tensor) => tensor.startsWith(`${reduction}/`));
      expect([...found.keys()].map((tensor) => `${reduction}/${tensor}`).sort()).toEqual(expectedNames.sort());
      for (const [tensor, gradient] of found)
        expect(difference(gradient, stored.get(`${reduction}/${tensor}`)!).relative, `${reduction} ${tensor}`).toBeLessThan(1e-4);
      given.engine.trainer.clearGradients();
    }
    await given.engine.close();
  });
}
