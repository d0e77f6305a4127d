/** The critic's loss: half the squared distance to the return, clipped around what the critic said when the credit was given. */
import * as o from "../../compute/tensor/ops.ts";
import type { Loss } from "../../types.ts";

/**
 * sum(weight x max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2) / 2), as in PPO's code, TRL and verl; `clip` 0 leaves the
 * second part out. Reads "return", "value" (V_old) and "weight"; `clipFraction` is the share of tokens where the clip took over.
 */
export function valueLoss(clip: number): Loss {
  return {
    key: `value-${clip}`,
    build: (x) => {
      const [target, old] = [x.field("return"), x.field("value")];
      const square = (values: typeof target): typeof target => {
        const gap = o.sub(values, target);
        return o.mul(gap, gap);
      };
      const overTokens = (values: typeof target): typeof target => o.div(o.sum(values), x.scalar("tokens"));
      const free = square(x.values);
      const weighted = (values: typeof target): typeof target => o.mul(o.sum(o.mul(x.field("weight"), values)), 0.5);
      const mean = overTokens(x.values);
      if (clip === 0) return { loss: weighted(free), metrics: { value: mean } };
      const held = square(o.add(old, o.clamp(o.sub(x.values, old), -clip, clip)));
      const clipped = o.cast(o.greater(held, free), "float32");
      return { loss: weighted(o.max(free, held)), metrics: { value: mean, clipFraction: overTokens(clipped) } };
    },
  };
}
