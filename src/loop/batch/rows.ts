/**
 * Credits -> training rows. Ids are those that were sampled; the mask is where sampled spans are; divisors are taken over the
 * whole step and become each token's weight, so that any cut into micro-batches gives the same sum.
 */
import { PolicyError, expected } from "../../errors.ts";
import type { Batch, Credit, Reduction, Row, TrainRow, Trajectory, Unit } from "../../types.ts";

export interface BatchOptions {
  readonly reduction: Reduction;
  readonly maskTruncated: boolean;
  /** Divisor of the "constant" reduction: the longest completion possible (Dr. GRPO's maximum length). */
  readonly maxLength: number;
  /** Rows whose advantages are all zero are left out of the passes (they stay in the divisor). False if the loss has other terms. */
  readonly skipZero: boolean;
}

export interface BuiltBatch {
  /** Null if nothing has a gradient. */
  readonly batch: Batch | null;
  /** Sampled tokens that count in the divisor, and completions. */
  readonly tokens: number;
  readonly completions: number;
}

/** True for an episode that a limit ended; "done" alone is an end of its own. */
export function isTruncated({ end }: Trajectory): boolean {
  switch (end.type) {
    case "done":
      return false;
    case "length":
    case "turnLimit":
    case "timeout":
    case "error":
      return true;
  }
}

/** Builds the batch of one step from the credits of its groups (null: a member without credit). One unit a group. */
export function buildBatch(credits_P_G: readonly (readonly (Credit | null)[])[], options: BatchOptions): BuiltBatch {
  const kept_P_G = credits_P_G.map((group) =>
    group.filter((credit): credit is Credit => credit !== null && !(options.maskTruncated && isTruncated(credit.trajectory))),
  );
  const kept = kept_P_G.flat();
  const tokens = kept.reduce((sum, credit) => sum + sampledTokens(credit), 0);
  const weightOf = (credit: Credit): number => tokenWeight(credit, { ...options, tokens, completions: kept.length });
  const units = kept_P_G
    .map((group): Unit => ({ rows: group.flatMap((credit) => trainRows(credit, weightOf(credit), options.skipZero)) }))
    .filter(({ rows }) => rows.length > 0);
  return { batch: units.length === 0 ? null : { units, scalars: { tokens } }, tokens, completions: kept.length };
}

function sampledTokens({ advantages }: Credit): number {
  return advantages.reduce((sum, row) => sum + row.length, 0);
}

function tokenWeight(credit: Credit, step: BatchOptions & { tokens: number; completions: number }): number {
  switch (step.reduction) {
    case "token-mean":
      return 1 / step.tokens;
    case "sequence-mean":
      return 1 / (step.completions * sampledTokens(credit));
    case "constant":
      return 1 / (step.completions * step.maxLength);
  }
}

function trainRows({ trajectory, advantages }: Credit, weight: number, skipZero: boolean): TrainRow[] {
  if (advantages.length !== trajectory.rows.length) {
    const want = `advantages of ${trajectory.rows.length} rows`;
    throw new PolicyError(expected(`trajectory ${trajectory.id}`, want, `of ${advantages.length}`));
  }
  return trajectory.rows.flatMap((row, i) => {
    const own = advantages[i]!;
    const where = `trajectory ${trajectory.id} row ${i}`;
    checkAligned(row, own, where);
    if (own.length === 0 || (skipZero && own.every((advantage) => advantage === 0))) return [];
    return [trainRow(row, { advantages: own, weight })];
  });
}

/** Checked also where a row is left out: an advantage that nothing can be said of is never dropped in silence. */
function checkAligned({ spans }: Row, { length }: Float32Array, where: string): void {
  const sampled = spans.filter((span) => span.kind === "sampled");
  const count = (of: (span: (typeof sampled)[number]) => number): number => sampled.reduce((sum, span) => sum + of(span), 0);
  const [tokens, logprobs] = [count(({ ids }) => ids.length), count((span) => span.logprobs.length)];
  if (length === tokens && logprobs === tokens) return;
  const want = `${tokens} advantages and log-probs, one for each sampled token`;
  throw new PolicyError(expected(where, want, `${length} and ${logprobs}`));
}

function trainRow(row: Row, { advantages, weight }: { advantages: Float32Array; weight: number }): TrainRow {
  const ids: number[] = [];
  const trained: number[] = [];
  const old: number[] = [];
  let temperature = 1;
  for (const span of row.spans) {
    if (span.kind === "sampled") {
      span.ids.forEach((_, t) => trained.push(ids.length + t));
      old.push(...span.logprobs);
      temperature = span.temperature;
    }
    ids.push(...span.ids);
  }
  const fields = { advantage: advantages, old: Float32Array.from(old), weight: new Float32Array(trained.length).fill(weight) };
  return { ids: Int32Array.from(ids), trained: Int32Array.from(trained), fields, temperature };
}
