/** to <- keep * to + (1 - keep) * from, parameter by parameter: a reset of the reference (keep 0) or a moving average. */
import type { HostTensor } from "../../tensor/host.ts";

type Tensors = ReadonlyMap<string, HostTensor>;

/** Blends the parameters that both have; true if a bit changed. */
export function blend(from: Tensors, to: Tensors, keep: number): boolean {
  let changed = false;
  for (const [name, target] of to) {
    const source = from.get(name);
    if (source !== undefined && mix(target.floats, keep, (i) => source.floats[i]!)) changed = true;
  }
  return changed;
}

/** Blends towards the plain base: its B matrices are zeros, and any A does. */
export function blendToBase(to: Tensors, keep: number): boolean {
  let changed = false;
  for (const [name, target] of to) if (name.endsWith(".loraB") && mix(target.floats, keep, () => 0)) changed = true;
  return changed;
}

function mix(target: Float32Array, keep: number, from: (i: number) => number): boolean {
  let changed = false;
  for (let i = 0; i < target.length; i++) {
    const before = target[i]!;
    target[i] = keep === 0 ? from(i) : keep * before + (1 - keep) * from(i);
    changed ||= !Object.is(target[i], before);
  }
  return changed;
}
