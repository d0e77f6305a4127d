/**
 * Kahneman-Tversky optimisation (Ethayarajh et al. 2024, arXiv:2402.01306): learns from answers that are good or bad, without pairs.
 * Defaults are those of TRL's KTOTrainer. Deviation: a mismatched answer is the next one of the step that belongs to another prompt
 * (TRL shifts answers inside its data batches, whatever their prompts).
 */
import { real } from "../config-fields.ts";
import { mismatchedRows } from "../loop/batch/mismatch.ts";
import { ktoLoss } from "../loop/loss/preference.ts";
import type { Batch, Engine } from "../types.ts";
import { defineOffline } from "./define.ts";
import { sampledRates } from "./settings.ts";

export const kto = defineOffline({
  name: "kto",
  paper: "arXiv:2402.01306",
  config: {
    beta: real({ above: 0, max: 100 }, 0.1, "weight of the constraint to the reference"),
    /** The paper wants desirableWeight x good answers between 1 and 4/3 of undesirableWeight x bad answers. */
    desirableWeight: real({ min: 0, max: 100 }, 1, "weight of good answers"),
    undesirableWeight: real({ min: 0, max: 100 }, 1, "weight of bad answers"),
  },
  refuse: ({ desirableWeight, undesirableWeight }) =>
    desirableWeight + undesirableWeight > 0
      ? []
      : ["algo.desirableWeight and algo.undesirableWeight: both are 0, so nothing is trained; set one above 0"],
  build: (settings) => ({
    examples: "labels",
    trains: "policy",
    learningRate: sampledRates,
    reduction: "sequence-mean",
    needsReference: true,
    loss: ktoLoss(settings),
    scalars: async (batch, engine) => ({ klBaseline: await klBaseline(batch, engine) }),
  }),
});

/** max(0, mean of log pi - log pi_ref over mismatched prompts and answers); 0 if the step has one prompt alone. */
async function klBaseline(batch: Batch, engine: Engine): Promise<number> {
  const rows = mismatchedRows(batch, engine.info.contextLength);
  if (rows.length === 0) return 0;
  const [policy, reference] = [await engine.logprobs(rows), await engine.logprobs(rows, { adapter: "reference" })];
  const sum = (values: Float32Array): number => values.reduce((total, value) => total + value, 0);
  const ratios = rows.map((_, i) => sum(policy[i]!) - sum(reference[i]!));
  return Math.max(0, ratios.reduce((a, b) => a + b, 0) / ratios.length);
}
