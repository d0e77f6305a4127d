/** A linear head from the last hidden state (after the final norm) to one number: value, reward or step score. */
import { normal, rng } from "../../random.ts";
import { HostTensor } from "../tensor/host.ts";

/** The head's one parameter, [1, hidden], without bias: transformers' `score` of AutoModelForSequenceClassification. */
export const scalarHeadName = "score.weight";

/** Normal with deviation 1 / (hidden + 1): the first values are near 0, so that a fresh critic says nothing yet. */
export function initialScalarHead(hidden: number, seed: number): HostTensor {
  const key = rng(seed, "scalar head");
  return new HostTensor(Float32Array.from({ length: hidden }, (_, i) => normal(key, i) / (hidden + 1)), [1, hidden]);
}
