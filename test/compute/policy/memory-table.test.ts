/** The memory table against numbers worked out by hand. */
import { expect, test } from "vitest";
import type { Architecture } from "../../../src/compute/models/architecture.ts";
import { memoryTable } from "../../../src/compute/policy/local/memory-table.ts";
import { goldenModel } from "../../fakes/golden.ts";

test("SmolLM2-135M with rank 16: 5.4 GB, 2.7 GB and 0.71 GB", () => {
  const smollm2: Architecture = {
    family: "llama",
    layers: 30,
    hidden: 576,
    heads: 9,
    kvHeads: 3,
    headDim: 64,
    intermediate: 1536,
    vocabulary: 49152,
    context: 8192,
    epsilon: 1e-5,
    norm: "rms",
    mlp: "gated",
    positions: { type: "rotary", theta: 100000, scaling: { type: "none" } },
    qkvBias: false,
    projectionBias: false,
    qkNorm: false,
    tied: true,
  };
  // Embedding 49,152 x 576; a layer: q and o 576^2 each, k and v 192 x 576 each, three of 1,536 x 576, two norms; one norm at the end.
  const model = 49152 * 576 + 30 * (2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576 + 2 * 576) + 576;
  expect(model).toBe(134_515_008);
  // Rank 16: q and o 16 (576 + 576), k and v 16 (576 + 192), gate, up and down 16 (576 + 1,536).
  const adapter = 30 * 16 * (2 * 1152 + 2 * 768 + 3 * 2112);
  expect(adapter).toBe(4_884_480);
  const [four, two, ours] = memoryTable(smollm2, 16);
  // Trained: actor and critic (a head of 576 on a tied model). 16 bytes each trained, 4 each frozen.
  const scored = model + 576;
  expect(four).toEqual({
    layout: "four copies (PPO)",
    weights: 8 * (model + scored),
    gradients: 4 * (model + scored),
    moments: 8 * (model + scored),
    total: 20 * (model + scored),
  });
  expect(four!.total).toBe(5_380_611_840);
  expect(two).toEqual({ layout: "two copies (GRPO)", weights: 8 * model, gradients: 4 * model, moments: 8 * model, total: 20 * model });
  expect(two!.total).toBe(2_690_300_160);
  expect(ours).toEqual({
    layout: "one base with adapters (PPO)",
    weights: 4 * model + 12 * adapter + 8 * 576,
    gradients: 8 * adapter + 4 * 576,
    moments: 16 * adapter + 8 * 576,
    total: 4 * model + 36 * adapter + 20 * 576,
  });
  expect(ours!.total).toBe(713_912_832);
});

test("an untied model: critic and reward model have a scalar head in the place of the vocabulary's", async () => {
  const { architecture } = await goldenModel("llama3");
  const [four, two] = memoryTable(architecture, 4);
  // Vocabulary 96, hidden 32: the two scored models lack 96 x 32 and have 32.
  expect(four!.total).toBe(2 * two!.total + 20 * (32 - 96 * 32));
});
