/** Batch, loss and update of one step: from a built batch to changed weights of the policy. */
import { PolicyError, expected } from "../errors.ts";
import { learningRateAt } from "../loop/update/schedule.ts";
import { trustRegionStep, type TrustResult } from "../loop/update/trust-region.ts";
import type { Algorithm, Batch, Engine, ForwardBackwardResult, OptimResult, TrainRow } from "../types.ts";
import type { TrainConfig } from "./config.ts";

export interface UpdateOptions {
  readonly algorithm: Pick<Algorithm, "loss" | "needs" | "epochsPerBatch" | "trustRegion">;
  readonly optim: TrainConfig["optim"];
  /** Optimiser steps of the whole run, for the schedule. */
  readonly totalUpdates: number;
  /** Optimiser steps made before. */
  readonly updates: number;
  readonly signal?: AbortSignal;
}

export interface UpdateResult {
  readonly first: ForwardBackwardResult;
  /** Empty where a trust region took the step. */
  readonly optim: readonly OptimResult[];
  readonly trust?: TrustResult;
  readonly learningRate: number;
  /** Largest difference between the sampler's log-probs and the trainer's, before any update. */
  readonly samplerGap: number;
}

/** Sampler and trainer run the same weights in float32; what they say of one token must agree this closely. */
const largestGap = 1e-4;

/** Takes `epochsPerBatch` optimiser steps (or one trust-region step) on a batch. A non-finite gradient is reported and changes nothing. */
export async function updatePolicy(engine: Engine, batch: Batch, options: UpdateOptions): Promise<UpdateResult> {
  const { algorithm, optim, totalUpdates } = options;
  const abort = options.signal === undefined ? {} : { signal: options.signal };
  const ready = algorithm.needs?.includes("reference") === true ? await withReference(engine, batch, abort) : batch;
  if (algorithm.trustRegion !== undefined) {
    const trust = await trustRegionStep(engine, ready, { loss: algorithm.loss, region: algorithm.trustRegion, ...abort });
    return { first: trust.first, optim: [], trust, learningRate: 0, samplerGap: checkedGap(ready, trust.first, algorithm) };
  }
  const results: OptimResult[] = [];
  let first: ForwardBackwardResult | undefined;
  let learningRate = 0;
  let samplerGap = 0;
  for (let epoch = 0; epoch < algorithm.epochsPerBatch; epoch++) {
    const result = await engine.forwardBackward(ready, algorithm.loss, abort);
    if (first === undefined) samplerGap = checkedGap(ready, result, algorithm);
    first ??= result;
    learningRate = rateAt(options.updates + epoch, { optim, total: totalUpdates });
    results.push(await engine.optimStep({ ...optim, learningRate }));
  }
  return { first: first!, optim: results, learningRate, samplerGap };
}

/** The step size of an update (the first is 0) by the run's schedule. */
export function rateAt(
  update: number,
  { optim, total, base = optim.learningRate }: { optim: TrainConfig["optim"]; total: number; base?: number },
): number {
  return learningRateAt(update, { base, schedule: optim.schedule, warmup: optim.warmupSteps, total });
}

/** The numbers of an update, by the names that the report knows. */
export function updateMetrics({ first, optim, trust, learningRate, samplerGap }: UpdateResult): Record<string, number> {
  return {
    loss: first.loss,
    ...first.metrics,
    ...(trust === undefined ? { learningRate, gradNorm: meanNorm(optim) } : trustMetrics(trust)),
    samplerGap,
    "batch/processed": first.tokens.processed,
  };
}

function trustMetrics({ accepted, kl, improvement, backtracks, gradNorm }: TrustResult): Record<string, number> {
  return { gradNorm, "trust/accepted": accepted ? 1 : 0, "trust/kl": kl, "trust/improvement": improvement, "trust/backtracks": backtracks };
}

/** Mean gradient norm of the optimiser steps that were taken. */
export function meanNorm(optim: readonly OptimResult[]): number {
  const norms = optim.flatMap((result) => (result.type === "stepped" ? [result.gradNorm] : []));
  return norms.length === 0 ? NaN : norms.reduce((a, b) => a + b, 0) / norms.length;
}

/**
 * Largest difference between the sampler's and the trainer's log-probs. An algorithm that has the trainer's own log-probs corrects for
 * a sampler that differs; for every other one a difference is a fault.
 */
function checkedGap(batch: Batch, { logprobs }: ForwardBackwardResult, { needs = [] }: Pick<Algorithm, "needs">): number {
  let gap = 0;
  batch.units.forEach((unit, u) =>
    unit.rows.forEach((row, r) => {
      const sampler = row.fields["sampler"] ?? row.fields["old"];
      sampler?.forEach((logprob, t) => (gap = Math.max(gap, Math.abs(logprob - logprobs[u]![r]![t]!))));
    }),
  );
  if (gap <= largestGap || (needs.includes("trainer") && Number.isFinite(gap))) return gap;
  throw new PolicyError(
    expected(
      "first pass over fresh samples",
      `log-probs within ${largestGap} of the sampler's`,
      String(gap),
      "sampler and trainer do not mean the same distribution",
    ),
  );
}

/** The batch with each row's log-probs under the policy as it was opened, in the field "reference" (where it is not there yet). */
async function withReference(engine: Engine, batch: Batch, abort: { readonly signal?: AbortSignal }): Promise<Batch> {
  const rows = batch.units.flatMap((unit) => unit.rows);
  if (rows.every(({ fields }) => fields["reference"] !== undefined)) return batch;
  const scores = await engine.logprobs(rows, { adapter: "reference", ...abort });
  let next = 0;
  const withField = (row: TrainRow): TrainRow => ({ ...row, fields: { ...row.fields, reference: scores[next++]! } });
  return { ...batch, units: batch.units.map((unit) => ({ rows: unit.rows.map(withField) })) };
}
