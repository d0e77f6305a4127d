/** The critic beside the policy: an adapter with a scalar head on the same base, trained towards the returns that credit was given with. */
import { PolicyError, expected } from "../errors.ts";
import { buildBatch, type BuiltBatch } from "../loop/batch/rows.ts";
import type { Algorithm, Batch, Credit, Critic, Engine, ForwardBackwardResult, OptimResult } from "../types.ts";
import type { TrainConfig } from "./config.ts";
import { meanNorm, rateAt } from "./update.ts";

/** The adapter's name. */
export const criticAdapter = "critic";

interface CriticOptions {
  readonly algorithm: Algorithm;
  readonly config: TrainConfig;
  readonly policy: { readonly engine: Engine };
  readonly signal?: AbortSignal;
}

interface CriticStep {
  readonly step: number;
  readonly credits: readonly (readonly (Credit | null)[])[];
}

/** One step of the critic, with a learning rate of its own and the schedule of the policy's; its numbers. Empty without a critic. */
export async function trainCritic(
  { algorithm, config, policy, signal }: CriticOptions,
  { step, credits }: CriticStep,
): Promise<Record<string, number>> {
  const { critic } = algorithm;
  if (critic === undefined) return {};
  const { batch } = criticBatch(credits, algorithm);
  if (batch === null) return {};
  const abort = signal === undefined ? {} : { signal };
  const result = await updateCritic(policy.engine, batch, { critic, step, steps: config.train.steps, optim: config.optim, ...abort });
  return criticMetrics(result, batch);
}

/** Every row with credit, whatever its advantage: the critic learns from all of them; each token counts the same. */
function criticBatch(credits: CriticStep["credits"], { maskTruncated, name: of }: Pick<Algorithm, "maskTruncated" | "name">): BuiltBatch {
  const bare = credits.flat().find((credit) => credit !== null && (credit.returns === undefined || credit.values === undefined));
  if (bare !== undefined && bare !== null) {
    throw new PolicyError(expected(`credit of ${of} for ${bare.trajectory.id}`, "returns and values, which its critic trains on", "none"));
  }
  return buildBatch(credits, { reduction: "token-mean", maskTruncated, maxLength: 1, skipZero: false });
}

interface CriticResult {
  readonly first: ForwardBackwardResult;
  readonly optim: readonly OptimResult[];
  readonly learningRate: number;
}

async function updateCritic(
  engine: Engine,
  batch: Batch,
  { critic, step, steps, optim, signal }: {
    readonly critic: Critic;
    readonly step: number;
    readonly steps: number;
    readonly optim: TrainConfig["optim"];
    readonly signal?: AbortSignal;
  },
): Promise<CriticResult> {
  const on = { adapter: criticAdapter, ...(signal === undefined ? {} : { signal }) };
  const { epochsPerBatch } = critic;
  const results: OptimResult[] = [];
  let first: ForwardBackwardResult | undefined;
  let learningRate = 0;
  for (let epoch = 0; epoch < epochsPerBatch; epoch++) {
    const result = await engine.forwardBackward(batch, critic.loss, on);
    first ??= result;
    const update = (step - 1) * epochsPerBatch + epoch;
    learningRate = rateAt(update, { optim, total: steps * epochsPerBatch, base: critic.learningRate });
    results.push(await engine.optimStep({ ...optim, learningRate, adapter: criticAdapter }));
  }
  return { first: first!, optim: results, learningRate };
}

/** The loss before the step, and how much of the returns' variance the values explained. */
function criticMetrics({ first, optim, learningRate }: CriticResult, batch: Batch): Record<string, number> {
  const explained = explainedVariance(batch);
  return {
    ...Object.fromEntries(Object.entries(first.metrics).map(([metric, value]) => [`critic/${metric}`, value])),
    "critic/loss": first.loss,
    "critic/gradNorm": meanNorm(optim),
    "critic/learningRate": learningRate,
    ...(explained === undefined ? {} : { "critic/explainedVariance": explained }),
  };
}

/** 1 - Var(return - value) / Var(return) over the tokens of a batch; undefined where all returns are equal. */
export function explainedVariance(batch: Batch): number | undefined {
  const rows = batch.units.flatMap((unit) => unit.rows);
  const returns = rows.flatMap(({ fields }) => [...fields["return"]!]);
  const gaps = rows.flatMap(({ fields }) => [...fields["return"]!].map((target, t) => target - fields["value"]![t]!));
  const spread = variance(returns);
  return spread > 0 ? 1 - variance(gaps) / spread : undefined;
}

function variance(values: readonly number[]): number {
  const centre = values.reduce((a, b) => a + b, 0) / values.length;
  return values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / values.length;
}
