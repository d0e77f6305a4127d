/** Losses of reward models, over the scalar head's values. */
import type { Tensor } from "../../compute/tensor/graph.ts";
import * as o from "../../compute/tensor/ops.ts";
import type { Loss } from "../../types.ts";
import { logSigmoid, rewardMetrics, smoothed, unitSums } from "./preference.ts";

interface BradleyTerrySettings {
  /** Weight of (r_c + r_r)^2, which keeps scores around 0 (arXiv:2312.09244); 0 turns it off. */
  readonly centring: number;
  readonly labelSmoothing: number;
}

/**
 * -log sigmoid(r_c - r_r - margin) over pairs (Bradley and Terry 1952; arXiv:2307.09288 for the margin). Each row has one value, after
 * its last token, with the fields "sign", "weight" and "margin"; the margin stands in both rows.
 */
export function bradleyTerry({ centring, labelSmoothing }: BradleyTerrySettings): Loss {
  return {
    key: `bradley-terry/${centring}/${labelSmoothing}`,
    build: (x) => {
      const sums = unitSums(x);
      const scores = { chosen: sums.chosen(x.values), rejected: sums.rejected(x.values) };
      const ahead = o.sub(o.sub(scores.chosen, scores.rejected), sums.chosen(x.field("margin")));
      const centre = o.add(scores.chosen, scores.rejected);
      const term = smoothed(ahead, labelSmoothing);
      const loss = centring === 0 ? term : o.add(term, o.mul(o.mul(centre, centre), centring));
      const square = (values: Tensor): Tensor => o.sum(o.mul(x.field("weight"), o.mul(values, values)));
      return { loss: sums.mean(loss), metrics: { ...rewardMetrics(sums, scores), "rewards/meanSquare": square(x.values) } };
    },
  };
}

/** Binary cross-entropy of the value at each labelled step (arXiv:2305.20050); "label" is 0, 1, or a share between (soft). */
export const stepCrossEntropy: Loss = {
  key: "step-cross-entropy",
  build: (x) => {
    const label = x.field("label");
    const term = o.add(o.mul(label, logSigmoid(x.values)), o.mul(o.sub(1, label), logSigmoid(o.neg(x.values))));
    const mean = (values: Tensor): Tensor => o.sum(o.mul(x.field("weight"), values));
    // Product of two signs: positive where value and label are on one side; a label of exactly one half agrees with neither.
    const agrees = o.greater(o.mul(x.values, o.sub(label, 0.5)), 0);
    return {
      loss: o.neg(mean(term)),
      metrics: { "steps/accuracy": mean(o.cast(agrees, "float32")), "steps/score": mean(o.sigmoid(x.values)), "steps/label": mean(label) },
    };
  },
};
