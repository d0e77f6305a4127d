/**
 * AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) as a graph: m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2,
 * w <- w - lr decay w, then w <- w - lr m^ / (sqrt(v^) + epsilon) with bias-corrected m^, v^ (torch.optim.AdamW's order).
 */
import { dim } from "./dim.ts";
import type { HostTensor} from "./host.ts";
import { floats } from "./host.ts";
import * as o from "./ops.ts";
import { Program } from "./program.ts";

/** One parameter with its gradient and moments; all of one length, updated in place. */
export interface AdamWState {
  readonly weight: Float32Array;
  readonly gradient: Float32Array;
  readonly first: Float32Array;
  readonly second: Float32Array;
  readonly decay: number;
}

interface AdamWStep {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** 1 for the first update. */
  readonly step: number;
  /** Factor on the gradient (clipping). */
  readonly gradientScale: number;
}

/** Long enough that starting a program costs nothing beside it, short enough that its temporaries stay in a cache. */
const piece = 1 << 18;

export class AdamW {
  readonly #program: Program;
  private constructor(program: Program) {
    this.#program = program;
  }

  static async compile(): Promise<AdamW> {
    const size = [dim("N")];
    const scalar = (name: string): ReturnType<typeof o.input> => o.input(name, []);
    // Factors are folded on the host: each operation here is a pass over memory.
    const gradient = o.input("gradient", size);
    const first = o.add(o.mul(o.input("first", size), scalar("beta1")), o.mul(gradient, scalar("intoFirst")));
    const scaled = o.mul(gradient, scalar("intoSecond"));
    const second = o.add(o.mul(o.input("second", size), scalar("beta2")), o.mul(scaled, scaled));
    const direction = o.div(first, o.add(o.sqrt(second), scalar("epsilon")));
    const weight = o.sub(o.mul(o.input("weight", size), scalar("keep")), o.mul(direction, scalar("rate")));
    return new AdamW(await Program.compile({ newWeight: weight, newFirst: first, newSecond: second }));
  }

  /** Updates every state in place. */
  async step(states: readonly AdamWState[], { learningRate, beta1, beta2, epsilon, step, gradientScale }: AdamWStep): Promise<void> {
    const one = (value: number): HostTensor => floats([value], []);
    // m^ / (sqrt(v^) + e) = (root / correction) m / (sqrt(v) + e root), with root the square root of v's correction.
    const root = Math.sqrt(1 - beta2 ** step);
    const shared = {
      beta1: one(beta1),
      beta2: one(beta2),
      intoFirst: one((1 - beta1) * gradientScale),
      intoSecond: one(Math.sqrt(1 - beta2) * gradientScale),
      epsilon: one(epsilon * root),
      rate: one((learningRate * root) / (1 - beta1 ** step)),
    };
    for (const { weight, gradient, first, second, decay } of states) {
      const keep = one(1 - learningRate * decay);
      for (let start = 0; start < weight.length; start += piece) {
        const cut = (array: Float32Array): HostTensor => floats(array.subarray(start, start + piece));
        const [w, m, v] = [cut(weight), cut(first), cut(second)];
        const into = { newWeight: w, newFirst: m, newSecond: v };
        await this.#program.run({ ...shared, keep, weight: w, gradient: cut(gradient), first: m, second: v }, { into });
      }
    }
  }

  async close(): Promise<void> {
    await this.#program.close();
  }
}
