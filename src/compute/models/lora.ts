/** Low-rank adapters (Hu et al. 2021, arXiv:2106.09685): y = x W^T + (alpha / rank) (x A^T) B^T, A [rank, in], B [out, rank]. */
import { ConfigError, expected } from "../../errors.ts";
import { rng, uniform } from "../../random.ts";
import { HostTensor } from "../tensor/host.ts";
import { parameterShapes, type Parameters } from "./parameters.ts";
import type { Architecture } from "./architecture.ts";

/** Linear layers that may carry an adapter. */
export const loraTargets = ["q", "k", "v", "o", "gate", "up", "down"] as const;
type LoraTarget = (typeof loraTargets)[number];

export interface LoraOptions {
  readonly rank: number;
  readonly alpha: number;
  readonly targets: readonly LoraTarget[];
}

/** Options by the names of a checkpoint's matrices ("q_proj"), as configurations have them; targets in our order. */
export function loraOptions({ rank, alpha, targets }: Omit<LoraOptions, "targets"> & { readonly targets: readonly string[] }): LoraOptions {
  return { rank, alpha, targets: loraTargets.filter((target) => targets.includes(`${target}_proj`)) };
}

/** Adapter parameters `layers.<i>.<part>.loraA` and `.loraB` with their shapes. */
export function loraShapes(architecture: Architecture, { rank, targets }: LoraOptions): Map<string, readonly number[]> {
  if (!Number.isInteger(rank) || rank < 1) throw new ConfigError(expected("model.rank", "a positive integer", String(rank)));
  const shapes = new Map<string, readonly number[]>();
  for (const [name, shape] of parameterShapes(architecture)) {
    const [, at, part] = /^(layers\.\d+\.(\w+))\.weight$/.exec(name) ?? [];
    if (at === undefined || !targets.includes(part as LoraTarget)) continue;
    shapes.set(`${at}.loraA`, [rank, shape[1]!]);
    shapes.set(`${at}.loraB`, [shape[0]!, rank]);
  }
  return shapes;
}

/** A fresh adapter: A uniform in +-1/sqrt(in) (PEFT's Kaiming start with a = sqrt 5), B zero, so that it changes nothing. */
export function initialLora(architecture: Architecture, options: LoraOptions, seed: number): Map<string, HostTensor> {
  const adapter = new Map<string, HostTensor>();
  for (const [name, shape] of loraShapes(architecture, options)) {
    const data = new Float32Array(shape[0]! * shape[1]!);
    if (name.endsWith("loraA")) {
      const key = rng(seed, "lora", name);
      const bound = 1 / Math.sqrt(shape[1]!);
      for (let i = 0; i < data.length; i++) data[i] = (2 * uniform(key, i) - 1) * bound;
    }
    adapter.set(name, new HostTensor(data, shape));
  }
  return adapter;
}

/** The base with the adapter added into its matrices, for export: W + (alpha / rank) B A, summed in double precision. */
export function mergeLora(base: Parameters, adapter: Parameters, { rank, alpha }: LoraOptions): Map<string, HostTensor> {
  const merged = new Map(base);
  for (const [name, a] of adapter) {
    if (!name.endsWith(".loraA")) continue;
    const target = name.replace(/\.loraA$/, ".weight");
    const b = adapter.get(name.replace(/A$/, "B"))!;
    const weight = base.get(target)!;
    merged.set(target, new HostTensor(addProduct(weight, { a, b, scale: alpha / rank }), weight.shape));
  }
  return merged;
}

function addProduct(weight: HostTensor, { a, b, scale }: { a: HostTensor; b: HostTensor; scale: number }): Float32Array {
  const out = Float32Array.from(weight.floats);
  const [rank, columns] = [a.shape[0]!, a.shape[1]!];
  const row = new Float64Array(columns);
  for (let i = 0; i < b.shape[0]!; i++) {
    row.fill(0);
    for (let r = 0; r < rank; r++) {
      const k = b.floats[i * rank + r]! * scale;
      if (k !== 0) for (let j = 0; j < columns; j++) row[j] = row[j]! + k * a.floats[r * columns + j]!;
    }
    for (let j = 0; j < columns; j++) out[i * columns + j] = weight.floats[i * columns + j]! + row[j]!;
  }
  return out;
}
