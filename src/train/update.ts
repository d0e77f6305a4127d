/** Batch, loss, update and weights of one step: from credits to a published policy version. */
import { PolicyError, expected } from "../errors.ts";
import { learningRateAt } from "../loop/update/schedule.ts";
import type { Algorithm, Batch, Engine, ForwardBackwardResult, OptimResult, TrainRow } from "../types.ts";
import type { TrainConfig } from "./config.ts";

interface UpdateOptions {
  readonly algorithm: Pick<Algorithm, "loss" | "needs" | "epochsPerBatch">;
  readonly optim: TrainConfig["optim"];
  /** Optimiser steps of the whole run, for the schedule. */
  readonly totalUpdates: number;
  /** Optimiser steps made before. */
  readonly updates: number;
  readonly signal?: AbortSignal;
}

export interface UpdateResult {
  readonly first: ForwardBackwardResult;
  readonly optim: readonly OptimResult[];
  readonly learningRate: number;
  /** Largest difference between the sampler's log-probs and the trainer's, before any update. */
  readonly samplerGap: number;
}

/** Sampler and trainer run the same weights in float32; what they say of one token must agree this closely. */
const largestGap = 1e-3;

/** Takes `epochsPerBatch` optimiser steps on a batch. A non-finite gradient is reported and changes nothing. */
export async function updatePolicy(engine: Engine, batch: Batch, options: UpdateOptions): Promise<UpdateResult> {
  const { algorithm, optim, totalUpdates } = options;
  const abort = options.signal === undefined ? {} : { signal: options.signal };
  const ready = algorithm.needs?.includes("reference") === true ? await withReference(engine, batch, abort) : batch;
  const results: OptimResult[] = [];
  let first: ForwardBackwardResult | undefined;
  let learningRate = 0;
  let samplerGap = 0;
  for (let epoch = 0; epoch < algorithm.epochsPerBatch; epoch++) {
    const result = await engine.forwardBackward(ready, algorithm.loss, abort);
    if (first === undefined) {
      first = result;
      samplerGap = gapOf(ready, result);
      if (!(samplerGap <= largestGap)) {
        throw new PolicyError(
          expected(
            "first pass over fresh samples",
            `log-probs within ${largestGap} of the sampler's`,
            String(samplerGap),
            "sampler and trainer do not mean the same distribution",
          ),
        );
      }
    }
    learningRate = learningRateAt(options.updates + epoch, {
      base: optim.learningRate,
      schedule: optim.schedule,
      warmup: optim.warmupSteps,
      total: totalUpdates,
    });
    results.push(await engine.optimStep({ ...optim, learningRate }));
  }
  return { first: first!, optim: results, learningRate, samplerGap };
}

/** The numbers of an update, by the names that the report knows. */
export function updateMetrics({ first, optim, learningRate, samplerGap }: UpdateResult): Record<string, number> {
  const norms = optim.flatMap((result) => (result.type === "stepped" ? [result.gradNorm] : []));
  return {
    loss: first.loss,
    ...first.metrics,
    learningRate,
    samplerGap,
    gradNorm: norms.length === 0 ? NaN : norms.reduce((a, b) => a + b, 0) / norms.length,
    "batch/processed": first.tokens.processed,
  };
}

function gapOf(batch: Batch, { logprobs }: ForwardBackwardResult): number {
  let gap = 0;
  batch.units.forEach((unit, u) =>
    unit.rows.forEach((row, r) => row.fields["old"]?.forEach((old, t) => (gap = Math.max(gap, Math.abs(old - logprobs[u]![r]![t]!))))),
  );
  return gap;
}

/** The batch with each row's log-probs under the policy as it was opened, in the field "reference". */
async function withReference(engine: Engine, batch: Batch, abort: { readonly signal?: AbortSignal }): Promise<Batch> {
  const scores = await engine.logprobs(batch.units.flatMap((unit) => unit.rows), { adapter: "reference", ...abort });
  let next = 0;
  const withField = (row: TrainRow): TrainRow => ({ ...row, fields: { ...row.fields, reference: scores[next++]! } });
  return { ...batch, units: batch.units.map((unit) => ({ rows: unit.rows.map(withField) })) };
}
