/** Engines on the tiny stored checkpoints, and their gradients under the checkpoints' own names. */
import { join } from "node:path";
import type { Family } from "../../src/compute/models/architecture.ts";
import { openSafetensors } from "../../src/compute/models/files/safetensors.ts";
import { loraShapes, loraTargets, type LoraOptions } from "../../src/compute/models/lora.ts";
import { storedTensors } from "../../src/compute/models/parameters.ts";
import { LocalEngine, type LocalEngineOptions } from "../../src/compute/policy/local/engine.ts";
import * as o from "../../src/compute/tensor/ops.ts";
import { floats, HostTensor } from "../../src/compute/tensor/host.ts";
import type { AdamWOptions, Batch, Loss, TrainRow } from "../../src/types.ts";
import { goldenFolder, goldenModel } from "./golden.ts";

/** The stored adapters' settings (adapter_config.json). */
export const storedLora: LoraOptions = { rank: 4, alpha: 8, targets: loraTargets };

/** An adapter matrix's name in a PEFT file. */
export function peftName(family: Family, name: string): string {
  const [, base, part] = /^(.*)\.lora([AB])$/.exec(name)!;
  return `base_model.model.${family.storedAs(`${base!}.weight`).name.replace(/\.weight$/, "")}.lora_${part!}.weight`;
}

type Train = "full" | "none" | "fresh-lora" | "stored-lora";

export interface GoldenEngine {
  readonly engine: LocalEngine;
  readonly family: Family;
}

/** Opens a stored checkpoint; "stored-lora" takes the adapter of the same name, "fresh-lora" one that changes nothing yet. */
export async function goldenEngine(name: string, train: Train, options: Partial<LocalEngineOptions> = {}): Promise<GoldenEngine> {
  const { family, architecture, parameters } = await goldenModel(name);
  const shared = { name, architecture, parameters, ...options };
  if (train === "full" || train === "none") return { family, engine: LocalEngine.open({ ...shared, train: { type: train } }) };
  if (train === "fresh-lora") return { family, engine: LocalEngine.open({ ...shared, train: { type: "lora", lora: storedLora } }) };
  const file = await openSafetensors(join(goldenFolder, "lora", name, "adapter_model.safetensors"));
  const initial = new Map<string, HostTensor>();
  for (const [own, shape] of loraShapes(architecture, storedLora)) initial.set(own, floats(await file.read(peftName(family, own)), shape));
  await file.close();
  return { family, engine: LocalEngine.open({ ...shared, train: { type: "lora", lora: storedLora, initial } }) };
}

/** The held gradients by our names. */
export function heldGradients(engine: LocalEngine): Map<string, Float32Array> {
  return new Map([...engine.trainer.trainable.keys()].map((name) => [name, engine.trainer.gradient(name)]));
}

/** The held gradients by the checkpoint's names, fused where the checkpoint fuses. */
export function storedGradients({ engine, family }: GoldenEngine): Map<string, Float32Array> {
  const held = heldGradients(engine);
  if ([...held.keys()].some((name) => name.endsWith(".loraA")))
    return new Map([...held].map(([name, gradient]) => [peftName(family, name), gradient]));
  const tensors = new Map([...held].map(([name, gradient]) => [name, new HostTensor(gradient, engine.trainer.trainable.get(name)!.shape)]));
  return new Map([...storedTensors(family, tensors)].map(({ name, data }) => [name, data]));
}

export function trainRow(
  ids: readonly number[],
  trained: readonly number[],
  rest: { temperature?: number; fields?: Record<string, readonly number[]> } = {},
): TrainRow {
  const fields = Object.fromEntries(Object.entries(rest.fields ?? {}).map(([name, values]) => [name, Float32Array.from(values)]));
  return { ids: Int32Array.from(ids), trained: Int32Array.from(trained), fields, temperature: rest.temperature ?? 1 };
}

/** Each row a unit of its own. */
export const separate = (rows: readonly TrainRow[], scalars: Readonly<Record<string, number>> = {}): Batch => ({
  units: rows.map((row) => ({ rows: [row] })),
  scalars,
});
/** All rows one unit, so that a common prefix is shared. */
export const together = (rows: readonly TrainRow[], scalars: Readonly<Record<string, number>> = {}): Batch => ({
  units: [{ rows }],
  scalars,
});

/** Mean negative log-prob; the scalar `tokens` is the divisor. */
export const crossEntropy: Loss = {
  key: "test/cross-entropy",
  build: (x) => ({ loss: o.neg(o.div(o.sum(x.logprobs), x.scalar("tokens"))), metrics: {} }),
};

export const adamw: AdamWOptions = { learningRate: 1e-2, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, maxGradNorm: 1 };
