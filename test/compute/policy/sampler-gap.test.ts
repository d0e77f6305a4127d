/**
 * What the sampler said of each token against what the training pass says of it, in float32: rows of three turns that go on from kept
 * keys and values, prompts that share a beginning, unequal lengths, before and after updates. Every architecture, all weights and LoRA.
 */
import { expect, test } from "vitest";
import { grpo } from "../../../src/algo/grpo.ts";
import type { LocalEngine } from "../../../src/compute/policy/local/engine.ts";
import { rng } from "../../../src/random.ts";
import type { TrainRow, Unit } from "../../../src/types.ts";
import { adamw, goldenEngine } from "../../fakes/engines.ts";
import { difference } from "../../fakes/golden.ts";

const samples = 3;
const prompts = [2, 5, 11, 16].map((length, p) => Array.from({ length }, (_, t) => (t < 5 ? t * 17 + 3 : p * 31 + t * 7) % 96));

/** One row of three turns: what was sampled is trained, what stands between turns is not. */
async function episode(engine: LocalEngine, { p, sample, step, temperature }: Record<"p" | "sample" | "step" | "temperature", number>) {
  const ids = [...prompts[p]!];
  const trained: number[] = [];
  const old: number[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const maxTokens = 1 + ((p + 2 * sample + 3 * turn) % 7);
    const keys = [rng(3, step, p, sample, turn)];
    const [span] = await engine.sample({ prompt: ids, count: 1, maxTokens, temperature, stopIds: [], keys });
    trained.push(...span!.ids.map((_, t) => ids.length + t));
    old.push(...span!.logprobs);
    ids.push(...span!.ids, 9, (turn + p) % 96);
  }
  return { ids: Int32Array.from(ids), trained: Int32Array.from(trained), old: Float32Array.from(old), temperature };
}

/** A batch as the loop makes it, a unit a prompt; the advantages are of both signs. */
function unitOf(rows: readonly Awaited<ReturnType<typeof episode>>[], tokens: number): Unit {
  const field = ({ trained }: { trained: Int32Array }, value: number): Float32Array => new Float32Array(trained.length).fill(value);
  return {
    rows: rows.map(({ old, ...row }, i): TrainRow => ({
      ...row,
      fields: { old, advantage: field(row, i - 1), weight: field(row, 1 / tokens) },
    })),
  };
}

for (const family of ["gpt2", "llama", "llama3", "qwen2", "qwen3"]) {
  for (const trained of ["full", "fresh-lora"] as const) {
    test(`${family}, ${trained}: within 1e-4 before each of three updates, at two temperatures`, async () => {
      const { engine } = await goldenEngine(family, trained, { maxRows: 8, microBatchTokens: 96 });
      await engine.publish();
      for (const [step, temperature] of [1, 0.7, 1].entries()) {
        const places = prompts.flatMap((_, p) => Array.from({ length: samples }, (__, sample) => ({ p, sample, step, temperature })));
        const rows = await Promise.all(places.map((place) => episode(engine, place)));
        const tokens = rows.reduce((sum, row) => sum + row.trained.length, 0);
        const units = prompts.map((_, p) => unitOf(rows.slice(p * samples, (p + 1) * samples), tokens));
        const { logprobs, metrics } = await engine.forwardBackward({ units, scalars: { tokens } }, grpo().loss);
        const read = await engine.logprobs(units.flatMap((unit) => unit.rows));
        for (const [i, { old }] of rows.entries()) {
          expect(difference(logprobs.flat()[i]!, old).max, `row ${i}`).toBeLessThan(1e-4);
          expect(difference(read[i]!, old).max, `row ${i}`).toBeLessThan(1e-4);
        }
        expect(metrics["ratioGap"]).toBeLessThan(1e-4);
        const before = engine.weightsHash();
        expect((await engine.optimStep(adamw)).type).toBe("stepped");
        expect(engine.weightsHash()).not.toBe(before);
        await engine.publish();
      }
      await engine.close();
    });
  }
}
