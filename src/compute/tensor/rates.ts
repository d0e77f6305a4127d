/** What this machine can do at most, measured with the runtime that everything runs on: the limits to compare a speed with. */
import { HostTensor, Pool } from "./host.ts";
import * as o from "./ops.ts";
import { Program } from "./program.ts";

export interface MachineRates {
  /** Dense float32 matrix products, 10^9 additions and multiplications a second. */
  readonly gigaflops: number;
  /** Weights read from memory by a product with one vector (what decoding one sequence does), 10^9 bytes a second. */
  readonly gigabytes: number;
}

/** Large enough for the kernel's full speed, and short (about 2 ms) enough that some call is not disturbed on a busy machine. */
const block = { rows: 512, inner: 768, columns: 768 } as const;

/** Repeats each product for about `seconds` and takes the fastest call, the one that nothing disturbed. */
export async function measureRates(seconds: number): Promise<MachineRates> {
  const square = await fastest(block, seconds);
  // 256 MB, larger than any cache.
  const vector = await fastest({ rows: 1, inner: 8192, columns: 8192 }, seconds);
  return { gigaflops: (2 * block.rows * block.inner * block.columns) / square / 1e9, gigabytes: (4 * 8192 ** 2) / vector / 1e9 };
}

interface ProductSize {
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
}

/** Seconds of x [rows, inner] times weights [columns, inner]. */
async function fastest(size: ProductSize, seconds: number): Promise<number> {
  const [x, weights] = [[size.rows, size.inner], [size.columns, size.inner]] as const;
  const program = await Program.compile({ y: o.matmul(o.input("x", x), o.input("weights", weights), { transB: true }) });
  const ones = (shape: readonly [number, number]): HostTensor => new HostTensor(new Float32Array(shape[0] * shape[1]).fill(1), shape);
  const feeds = { x: ones(x), weights: ones(weights) };
  const pool = new Pool();
  let best = Infinity;
  for (const end = performance.now() + seconds * 1000; ; ) {
    const started = performance.now();
    const { y } = await program.run(feeds, { pool });
    const now = performance.now();
    pool.give(y);
    best = Math.min(best, (now - started) / 1000);
    if (now >= end) break;
  }
  await program.close();
  return best;
}
