/** The machine's own rates, measured beside every figure, and what a cost takes at them. */
import { measureRates } from "../src/compute/tensor/rates.ts";
import type { Cost } from "./cost.ts";

export interface Rates {
  /** Floating-point operations a second. */
  readonly flops: number;
  /** Bytes a second. */
  readonly bytes: number;
}

/** Seconds that a cost takes at these rates: whichever is slower. */
export function limitSeconds({ flops, bytes }: Cost, rates: Rates): number {
  return Math.max(flops / rates.flops, bytes / rates.bytes);
}

export async function machineRates(): Promise<Rates> {
  const { gigaflops, gigabytes } = await measureRates(0.3);
  return { flops: gigaflops * 1e9, bytes: gigabytes * 1e9 };
}
