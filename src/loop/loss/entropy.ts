/** Entropy of the distributions that tokens were drawn from, as a term of the loss. */
import * as o from "../../compute/tensor/ops.ts";
import type { TokenPart } from "./policy-loss.ts";

/** -coef x entropy: keeps the policy from collapsing. "scheduled" reads the coefficient from the batch's scalar `entropyCoef`. */
export function entropyBonus(coef: number | "scheduled"): TokenPart {
  return {
    key: `entropy-${coef}`,
    build: (x) => ({
      value: o.neg(o.mul(x.entropy, coef === "scheduled" ? x.scalar("entropyCoef") : coef)),
      measures: { entropy: x.entropy },
    }),
  };
}
