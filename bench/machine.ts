/** The machine's own rates, measured beside every figure: a large float32 matrix product, and reading an array larger than the caches. */
import { HostTensor } from "../src/compute/tensor/host.ts";
import * as o from "../src/compute/tensor/ops.ts";
import { Program } from "../src/compute/tensor/program.ts";
import type { Cost } from "./cost.ts";

const side = 2048;
const [rows, columns] = [8192, 8192]; // 256 MiB

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

export class MachineProbe {
  readonly #product: Program;
  readonly #reads: readonly Program[];
  readonly #feeds: Readonly<Record<string, HostTensor>>;
  readonly #target = new HostTensor(new Float32Array(side * side), [side, side]);

  private constructor(product: Program, reads: readonly Program[]) {
    this.#product = product;
    this.#reads = reads;
    const filled = (shape: readonly [number, number]): HostTensor => new HostTensor(new Float32Array(shape[0] * shape[1]).fill(0.5), shape);
    this.#feeds = { a: filled([side, side]), b: filled([side, side]), x: filled([1, columns]), table: filled([rows, columns]) };
  }

  static async open(): Promise<MachineProbe> {
    const product = o.matmul(o.input("a", [side, side]), o.input("b", [side, side]));
    const table = o.input("table", [rows, columns]);
    // Two ways to read an array once; the faster one is the machine's rate.
    const reads = [o.matmul(o.input("x", [1, columns]), table, { transB: true }), o.sum(table, { axes: [1] })];
    return new MachineProbe(await Program.compile({ y: product }), await Promise.all(reads.map((y) => Program.compile({ y }))));
  }

  /** The best of a few tries of each: a rate is what the machine can do. */
  async measure(tries = 3): Promise<Rates> {
    const timed = async (run: () => Promise<unknown>): Promise<number> => {
      const started = performance.now();
      await run();
      return (performance.now() - started) / 1000;
    };
    let [product, read] = [Infinity, Infinity];
    for (let i = 0; i < tries; i++) {
      product = Math.min(product, await timed(() => this.#product.run(this.#feeds, { into: { y: this.#target } })));
      for (const program of this.#reads) read = Math.min(read, await timed(() => program.run(this.#feeds)));
    }
    return { flops: (2 * side ** 3) / product, bytes: (rows * columns * 4) / read };
  }

  async close(): Promise<void> {
    await Promise.all([this.#product, ...this.#reads].map((program) => program.close()));
  }
}
