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

/** Pieces this long stay in the second-level cache while the chain of elementwise kernels runs over them. */
const piece = 1 << 16;

export class AdamW {
  readonly #program: Program;
  private constructor(program: Program) {
    this.#program = program;
  }

  static async compile(): Promise<AdamW> {
    const size = [dim("N")];
    const scalar = (name: string): ReturnType<typeof o.input> => o.input(name, []);
    const g = o.mul(o.input("gradient", size), scalar("scale"));
    const first = o.add(o.mul(o.input("first", size), scalar("beta1")), o.mul(g, scalar("oneMinusBeta1")));
    const second = o.add(o.mul(o.input("second", size), scalar("beta2")), o.mul(o.mul(g, g), scalar("oneMinusBeta2")));
    const denominator = o.add(o.div(o.sqrt(second), scalar("rootCorrection2")), scalar("epsilon"));
    const decayed = o.mul(o.input("weight", size), scalar("keep"));
    const weight = o.sub(decayed, o.div(o.mul(first, scalar("rate")), denominator));
    return new AdamW(await Program.compile({ newWeight: weight, newFirst: first, newSecond: second }));
  }

  /** Updates every state in place. */
  async step(states: readonly AdamWState[], { learningRate, beta1, beta2, epsilon, step, gradientScale }: AdamWStep): Promise<void> {
    const one = (value: number): HostTensor => floats([value], []);
    const shared = {
      scale: one(gradientScale), beta1: one(beta1), oneMinusBeta1: one(1 - beta1), beta2: one(beta2), oneMinusBeta2: one(1 - beta2),
      rootCorrection2: one(Math.sqrt(1 - beta2 ** step)), epsilon: one(epsilon), rate: one(learningRate / (1 - beta1 ** step)),
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
