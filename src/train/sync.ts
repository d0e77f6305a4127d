/**
 * Synchronous on-policy training: sample, grade, hear what other models say, give credit, make a batch, take a step, publish; then the
 * next step samples from the new weights. The order of the stages stands here and nowhere else.
 */
import { buildBatch } from "../loop/batch/rows.ts";
import { coefficientsOf } from "./carried.ts";
import { collectStep } from "./collect.ts";
import { trainCritic } from "./critic.ts";
import { gatherEvidence } from "./evidence.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { StepKeeper } from "./keep.ts";
import { moveReference } from "./moving-reference.ts";
import { stepMetrics } from "./step-metrics.ts";
import { batchOptions, recordOf, rolloutOptions, StepClock, updateOptions, type SyncRun } from "./sync-options.ts";
import { TokenBudget } from "./token-budget.ts";
import { updateMetrics, updatePolicy } from "./update.ts";
import { Watch } from "./watch.ts";

/** Trains until all steps are committed or the token budget is spent; returns the last evaluation, and why a run ended early. */
export async function trainSync(sync: SyncRun): Promise<{ readonly evaluation: Evaluation | undefined; readonly stopped?: string }> {
  const keeper = new StepKeeper(sync);
  return keeper.guard(() => takeSteps(sync, keeper));
}

async function takeSteps(sync: SyncRun, keeper: StepKeeper): ReturnType<typeof trainSync> {
  const { config, env, algorithm, policy, run } = sync;
  const watch = new Watch(sync);
  const budget = new TokenBudget(sync);
  let coefficients = coefficientsOf(run, algorithm);
  await keeper.start();
  for (let step = run.lastStep + 1; step <= config.train.steps && budget.exhausted === undefined; step++) {
    const clock = new StepClock();
    const collected = await collectStep(env, rolloutOptions(sync, step));
    clock.mark("rollout");
    const evidence = await gatherEvidence(collected.groups, sync);
    clock.mark("evidence");
    const credits = algorithm.credit(collected.groups, { evidence: evidence.of, limits: config.rollout, coefficients });
    const built = buildBatch(credits, batchOptions(sync, { evidence: evidence.of, scalars: coefficients }));
    keeper.changing();
    const critic = await trainCritic(sync, { step, credits });
    const warming = step <= (algorithm.critic?.warmupSteps ?? 0);
    const update = built.batch === null || warming ? null : await updatePolicy(policy.engine, built.batch, updateOptions(sync, step));
    if (update !== null) moveReference(policy.engine, { config, step });
    clock.mark("update");
    const { groups, ...record } = recordOf(collected, credits);
    const kl = evidence.metrics["kl/completionK1"];
    budget.add(groups);
    const { signals, health, ends: collapsed } = watch.observe({ step, groups, kl, evaluation: keeper.evaluation });
    const parts = [{ "tokens/sampled": budget.spent }, evidence.metrics, critic, update === null ? {} : updateMetrics(update)];
    const replaced = collected.replaced.length;
    const metrics = stepMetrics({ step, groups, replaced, built, signals, health, coefficients, parts, seconds: clock.seconds });
    coefficients = algorithm.controller?.next(coefficients, { metrics, completions: built.completions }) ?? coefficients;
    const unchanged = warming ? { unchanged: "the critic alone is trained" } : {};
    const extra = { coefficients, collapse: watch.state, sampledTokens: budget.spent };
    await keeper.keep({ step, ...record, update, ...unchanged, metrics, extra, ends: collapsed || budget.exhausted !== undefined });
    if (collapsed) return { evaluation: keeper.evaluation, stopped: await watch.end(step) };
  }
  if (budget.exhausted !== undefined) sync.observer.onNote?.(`stopped after step ${run.lastStep}: ${budget.exhausted}`);
  return { evaluation: keeper.evaluation, ...(budget.exhausted === undefined ? {} : { stopped: budget.exhausted }) };
}
