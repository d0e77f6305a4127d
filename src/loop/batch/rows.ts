/**
 * Credits -> training rows. Ids are those that were sampled; the mask is where sampled spans are; divisors are taken over the
 * whole step and become each token's weight, so that any cut into micro-batches gives the same sum.
 */
import { PolicyError, expected } from "../../errors.ts";
import type { Batch, Credit, Evidence, Reduction, Row, TokenValues, TrainRow, Trajectory, Unit } from "../../types.ts";

export interface BatchOptions {
  readonly reduction: Reduction;
  readonly maskTruncated: boolean;
  /** Divisor of the "constant" reduction: the longest completion possible (Dr. GRPO's maximum length). */
  readonly maxLength: number;
  /** Rows whose advantages are all zero are left out of the passes (they stay in the divisor). False if the loss has other terms. */
  readonly skipZero: boolean;
  /** Becomes fields: "reference"; and with the trainer's log-probs, "old" (the trainer's) and "sampler" (the sampler's). */
  readonly evidence?: (trajectory: Trajectory) => Evidence;
  /** Given to the loss beside "tokens": a controller's coefficients. */
  readonly scalars?: Readonly<Record<string, number>>;
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
    case "toolBudget":
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
    .map((group): Unit => ({ rows: group.flatMap((credit) => trainRows(credit, weightOf(credit), options)) }))
    .filter(({ rows }) => rows.length > 0);
  const scalars = { ...options.scalars, tokens };
  return { batch: units.length === 0 ? null : { units, scalars }, tokens, completions: kept.length };
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

function trainRows(credit: Credit, weight: number, { skipZero, evidence }: BatchOptions): TrainRow[] {
  const { trajectory, advantages } = credit;
  const fields = { ...creditFields(credit), ...evidenceFields(evidence?.(trajectory) ?? {}) };
  for (const [name, rows] of Object.entries(fields)) {
    if (rows.length === trajectory.rows.length) continue;
    const want = `${nounOf(name)} of ${trajectory.rows.length} rows`;
    throw new PolicyError(expected(`trajectory ${trajectory.id}`, want, `of ${rows.length}`));
  }
  return trajectory.rows.flatMap((row, i) => {
    const own = Object.fromEntries(Object.entries(fields).map(([name, rows]) => [name, rows[i]!]));
    checkAligned(row, own, `trajectory ${trajectory.id} row ${i}`);
    const { length } = advantages[i]!;
    if (length === 0 || (skipZero && advantages[i]!.every((advantage) => advantage === 0))) return [];
    const { ids, trained, logprobs, temperature } = sampledRow(row);
    const sampler = own["old"] === undefined ? { old: logprobs } : { sampler: logprobs };
    return [{ ids, trained, fields: { ...sampler, ...own, weight: new Float32Array(length).fill(weight) }, temperature }];
  });
}

function creditFields({ advantages, returns, values }: Credit): Record<string, TokenValues> {
  const targets = returns === undefined ? {} : { return: returns };
  return { advantage: advantages, ...targets, ...(values === undefined ? {} : { value: values }) };
}

function evidenceFields({ reference, trainer }: Evidence): Record<string, TokenValues> {
  return { ...(reference === undefined ? {} : { reference }), ...(trainer === undefined ? {} : { old: trainer }) };
}

/** What a field's numbers are called in a message. */
function nounOf(field: string): string {
  return field === "advantage" || field === "return" || field === "value" ? `${field}s` : `${field} log-probs`;
}

/** Checked also where a row is left out: an advantage that nothing can be said of is never dropped in silence. */
function checkAligned({ spans }: Row, fields: Readonly<Record<string, Float32Array>>, where: string): void {
  const sampled = spans.filter((span) => span.kind === "sampled");
  const count = (of: (span: (typeof sampled)[number]) => number): number => sampled.reduce((sum, span) => sum + of(span), 0);
  const [tokens, logprobs] = [count(({ ids }) => ids.length), count((span) => span.logprobs.length)];
  for (const [name, { length }] of Object.entries(fields)) {
    if (length === tokens && logprobs === tokens) continue;
    const want = `${tokens} ${nounOf(name)} and log-probs, one for each sampled token`;
    throw new PolicyError(expected(where, want, `${length} and ${logprobs}`));
  }
}

/** A row as tokens: all ids, the positions of the sampled ones, their log-probs when they were sampled, and at what temperature. */
export function sampledRow(row: Row): Omit<TrainRow, "fields"> & { readonly logprobs: Float32Array } {
  const ids: number[] = [];
  const trained: number[] = [];
  const logprobs: number[] = [];
  let temperature = 1;
  for (const span of row.spans) {
    if (span.kind === "sampled") {
      span.ids.forEach((_, t) => trained.push(ids.length + t));
      logprobs.push(...span.logprobs);
      temperature = span.temperature;
    }
    ids.push(...span.ids);
  }
  return { ids: Int32Array.from(ids), trained: Int32Array.from(trained), logprobs: Float32Array.from(logprobs), temperature };
}
