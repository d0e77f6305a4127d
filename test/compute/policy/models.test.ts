/** Logits of every family against transformers' on the same weights. */
import { expect, test } from "vitest";
import { runForward, type Machine } from "../../../src/compute/policy/local/forward.ts";
import { runHead, select } from "../../../src/compute/policy/local/head.ts";
import { LocalModel } from "../../../src/compute/policy/local/model.ts";
import { pack } from "../../../src/compute/policy/local/packing.ts";
import { Programs } from "../../../src/compute/policy/local/programs.ts";
import { Pool } from "../../../src/compute/tensor/host.ts";
import { difference, goldenJson, goldenModel, goldenTensors } from "../../fakes/golden.ts";

for (const name of ["gpt2", "gpt2-hub", "llama", "llama-sharded", "llama-bf16", "llama3", "qwen2", "qwen3"]) {
  test(`${name}: logits equal transformers'`, async () => {
    const { architecture, parameters } = await goldenModel(name);
    const model = new LocalModel(architecture, parameters);
    model.setVariant("base", { type: "base" });
    const machine: Machine = { model, programs: new Programs(architecture), pool: new Pool() };
    const { rows } = goldenJson<{ rows: number[][] }>(`models/${name}/expected.json`);
    const expectedTensors = await goldenTensors(`models/${name}/expected.safetensors`);
    for (const [i, ids] of rows.entries()) {
      // One extra token, so that every position of the stored row predicts something.
      const trained = Int32Array.from(ids, (_, t) => t + 1);
      const row = { ids: Int32Array.from([...ids, 0]), trained, fields: {}, temperature: 1 };
      const [micro] = pack({ units: [{ rows: [row] }], scalars: {} }, 4096);
      const passes = await runForward(machine, micro!, { variant: "base", keep: "nothing" });
      const options = { variant: "base", entropy: false, logitBytes: 1e9, backward: true };
      const head = await runHead(machine, { pass: passes.rows, selection: select(micro!) }, options);
      const logits = head.chunks[0]!.logits!.floats;
      expect(difference(logits, expectedTensors.get(`row${i}.logits`)!).max).toBeLessThan(1e-4);
    }
    await machine.programs.close();
  });
}
