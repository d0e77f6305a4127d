/** A measured figure, and how it is taken: repeats of the work with the machine's rates between them, medians of the pairs. */
import type { Cost } from "./cost.ts";
import { limitSeconds, machineRates, type Rates } from "./machine.ts";
import type { ShapeName } from "./shapes.ts";

export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Machine's limit over measured, 0 to 1: median over the repeats, each with the rates measured around it. */
  readonly fractionOfLimit?: number;
  readonly limitedBy?: "matrix product" | "memory";
  /** Median rates of the machine during this figure. */
  readonly machine?: Rates;
  /** Processor seconds a wall second. */
  readonly processors?: number;
  readonly note?: string;
}

export interface BenchOptions {
  readonly shape: ShapeName;
  readonly quick: boolean;
  readonly repeats: number;
  /** One line of progress. */
  readonly say: (line: string) => void;
}

/** A group of figures; runs in a process of its own. */
export type FigureGroup = (options: BenchOptions) => Promise<readonly Figure[]>;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export interface Work {
  /** Does the work once; resolves with the seconds that count, or nothing if all of it counts. */
  readonly run: () => Promise<number | void>;
  readonly cost: Cost;
}

export interface Timing {
  readonly seconds: number;
  readonly rest: Required<Pick<Figure, "fractionOfLimit" | "limitedBy" | "machine" | "processors">>;
}

/** Medians over `repeats` runs after one that is thrown away; the machine's rates are measured before, between and after. */
export async function time({ run, cost }: Work, { repeats, say }: Pick<BenchOptions, "repeats" | "say">): Promise<Timing> {
  await run();
  const samples: { seconds: number; fraction: number; rates: Rates; processors: number }[] = [];
  let before = await machineRates();
  for (let i = 0; i < repeats; i++) {
    const [wall, cpu] = [performance.now(), process.cpuUsage()];
    const counted = await run();
    const used = process.cpuUsage(cpu);
    const elapsed = (performance.now() - wall) / 1000;
    const seconds = typeof counted === "number" ? counted : elapsed;
    const after = await machineRates();
    const rates = { flops: (before.flops + after.flops) / 2, bytes: (before.bytes + after.bytes) / 2 };
    before = after;
    samples.push({ seconds, fraction: limitSeconds(cost, rates) / seconds, rates, processors: (used.user + used.system) / 1e6 / elapsed });
    const machine = `${(rates.flops / 1e9).toFixed(0)} GFLOP/s, ${(rates.bytes / 1e9).toFixed(1)} GB/s`;
    say(`repeat ${i + 1}/${repeats}: ${seconds.toFixed(3)} s, ${machine}`);
  }
  const machine = { flops: median(samples.map(({ rates }) => rates.flops)), bytes: median(samples.map(({ rates }) => rates.bytes)) };
  return {
    seconds: median(samples.map(({ seconds }) => seconds)),
    rest: {
      fractionOfLimit: median(samples.map(({ fraction }) => fraction)),
      limitedBy: cost.flops / machine.flops >= cost.bytes / machine.bytes ? "matrix product" : "memory",
      machine,
      processors: median(samples.map(({ processors }) => processors)),
    },
  };
}
