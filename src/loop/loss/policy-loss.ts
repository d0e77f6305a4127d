/**
 * Policy losses put together from parts: loss = sum over tokens of weight x (surrogate x weights + terms). The weight (made by
 * loop/batch for the whole step) carries the reduction, so a loss has no divisor of its own.
 */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { Loss, LossInputs } from "../../types.ts";
import { klEstimate } from "./kl.ts";

/** One part of a policy loss: a number for each token, and what is reported of it as a mean over the step's tokens. */
export interface TokenPart {
  /** Names the part with its settings, for the cache of compiled programs. */
  readonly key: string;
  build(x: LossInputs): { readonly value: Tensor; readonly measures?: Readonly<Record<string, Tensor>> };
}

interface PolicyLossParts {
  readonly surrogate: TokenPart;
  /** Factors of the surrogate alone. */
  readonly weights?: readonly TokenPart[];
  /** Added to it. */
  readonly terms?: readonly TokenPart[];
}

/** The one place where a policy loss and its metrics are assembled. Metrics beside the parts' own: `ratioGap` and `kl/old`. */
export function policyLoss({ surrogate, weights = [], terms = [] }: PolicyLossParts): Loss {
  const parts = [surrogate, ...weights, ...terms];
  return {
    key: `policy/${parts.map(({ key }) => key).join("/")}`,
    build: (x) => {
      const [first, ...rest] = parts.map((part) => part.build(x));
      const factors = rest.slice(0, weights.length);
      const added = rest.slice(weights.length);
      const scaled = factors.reduce((product, { value }) => o.mul(product, value), first!.value);
      const perToken = added.reduce((total, { value }) => o.add(total, value), scaled);
      const gap = o.sub(x.logprobs, x.field("old"));
      const measures: Record<string, Tensor> = {
        ratioGap: o.abs(o.sub(o.exp(gap), 1)),
        "kl/old": klEstimate(x.field("old"), x.logprobs, "k3"),
      };
      for (const part of [first!, ...rest]) Object.assign(measures, part.measures);
      const overTokens = (values: Tensor): Tensor => o.div(o.sum(values), x.scalar("tokens"));
      return {
        loss: o.sum(o.mul(x.field("weight"), perToken)),
        metrics: Object.fromEntries(Object.entries(measures).map(([name, values]) => [name, overTokens(values)])),
      };
    },
  };
}
