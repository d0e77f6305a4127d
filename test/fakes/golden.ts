/** Reads the stored values of test/golden (see its README for the formats). */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openSafetensors } from "../../src/compute/models/files/safetensors.ts";
import { familyOf, loadParameters } from "../../src/compute/models/parameters.ts";
import type { Architecture, Family } from "../../src/compute/models/architecture.ts";
import type { HostTensor } from "../../src/compute/tensor/host.ts";
import type { JsonObject } from "../../src/types.ts";

export const goldenFolder = join(import.meta.dirname, "../golden");

export function goldenJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(goldenFolder, path), "utf8")) as T;
}

export async function goldenTensors(path: string): Promise<Map<string, Float32Array>> {
  const file = await openSafetensors(join(goldenFolder, path));
  const tensors = new Map<string, Float32Array>();
  for (const name of file.tensors.keys()) tensors.set(name, await file.read(name));
  await file.close();
  return tensors;
}

/** A tiny random checkpoint; it has no tokenizer, so the weights are opened directly. */
export async function goldenModel(
  name: string,
): Promise<{ family: Family; architecture: Architecture; parameters: Map<string, HostTensor> }> {
  const folder = join(goldenFolder, "models", name);
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as JsonObject;
  const family = familyOf(config);
  const architecture = family.read(config);
  const index = join(folder, "model.safetensors.index.json");
  const source = await openSafetensors(existsSync(index) ? index : join(folder, "model.safetensors"));
  const parameters = await loadParameters(family, architecture, source);
  await source.close();
  return { family, architecture, parameters };
}

/** Largest |a - b|, and that divided by the norm of b. */
export function difference(a: ArrayLike<number>, b: ArrayLike<number>): { max: number; relative: number } {
  if (a.length !== b.length) throw new Error(`lengths ${a.length} and ${b.length}`);
  let max = 0;
  let gap = 0;
  let norm = 0;
  for (let i = 0; i < a.length; i++) {
    max = Math.max(max, Math.abs(a[i]! - b[i]!));
    gap += (a[i]! - b[i]!) ** 2;
    norm += b[i]! ** 2;
    if (Number.isNaN(a[i]!)) return { max: NaN, relative: NaN };
  }
  return { max, relative: Math.sqrt(gap / Math.max(norm, 1e-30)) };
}
