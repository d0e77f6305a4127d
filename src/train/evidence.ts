/** What models say of this step's trajectories, gathered before credit is given: one pass over all rows for each thing needed. */
import { RewardError, expected } from "../errors.ts";
import { isTruncated, sampledRow } from "../loop/batch/rows.ts";
import type { Policy } from "../loop/rollout/episode.ts";
import type { Algorithm, CreditContext, Engine, Evidence, Group, TokenValues, TrainRow, Trajectory } from "../types.ts";
import { mean } from "./evaluate/evaluate.ts";

/** A process reward model, or whatever else gives each turn of a trajectory a score; one list a trajectory, one number a turn. */
export type TurnScorer = (
  trajectories: readonly Trajectory[],
  on: { readonly policy: Policy & { readonly engine: Engine }; readonly signal?: AbortSignal },
) => Promise<readonly (readonly number[])[]>;

interface EvidenceOptions {
  readonly policy: Policy & { readonly engine: Engine };
  readonly algorithm: Pick<Algorithm, "name" | "needs" | "critic">;
  readonly turnScorer?: TurnScorer;
  readonly signal?: AbortSignal;
}

interface StepEvidence {
  readonly of: (trajectory: Trajectory) => Evidence;
  /** Where there is a reference: "kl/completion" and "kl/completionK1", means over completions of the mean of k3 and of k1 over tokens. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** The context of an algorithm that needs nothing but rewards. */
export function noEvidence(limits: CreditContext["limits"]): CreditContext {
  return { evidence: () => ({}), limits, coefficients: {} };
}

/** Gathers what the algorithm needs of every graded trajectory; of one that was not graded nothing is said. */
export async function gatherEvidence(groups: readonly Group[], options: EvidenceOptions): Promise<StepEvidence> {
  const { policy, algorithm, turnScorer, signal } = options;
  const { engine } = policy;
  const needs = new Set(algorithm.needs);
  const graded = groups.flatMap(({ members }) => members.filter(({ verdict }) => verdict.type === "scored"));
  const trajectories = graded.map(({ trajectory }) => trajectory);
  const found = new Map<Trajectory, Evidence>(trajectories.map((trajectory) => [trajectory, {}]));
  if (trajectories.length === 0) return { of: () => ({}), metrics: {} };
  const abort = signal === undefined ? {} : { signal };
  const add = (trajectory: Trajectory, more: Evidence): void => void found.set(trajectory, { ...found.get(trajectory), ...more });
  const rows = trajectories.flatMap(placedRows);
  const read = async (part: "reference" | "trainer", adapter: string): Promise<void> => {
    const scores = await engine.logprobs(rows.map(({ row }) => row), { adapter, ...abort });
    for (const [trajectory, values] of byTrajectory(rows, scores)) add(trajectory, { [part]: values });
  };
  if (needs.has("reference")) await read("reference", "reference");
  if (needs.has("trainer")) await read("trainer", "policy");
  if (algorithm.critic !== undefined) {
    for (const [trajectory, values] of await readValues(engine, rows, abort)) add(trajectory, values);
  }
  if (needs.has("turnScores")) {
    const scores = await scoreTurns(turnScorer, trajectories, { policy, name: algorithm.name, ...abort });
    trajectories.forEach((trajectory, i) => add(trajectory, { turnScores: scores[i]! }));
  }
  return { of: (trajectory) => found.get(trajectory) ?? {}, metrics: klMetric(found) };
}

interface PlacedRow {
  readonly trajectory: Trajectory;
  /** Of the trajectory's rows. */
  readonly index: number;
  readonly row: TrainRow;
}

function placedRows(trajectory: Trajectory): PlacedRow[] {
  return trajectory.rows.flatMap((spans, index) => {
    const { ids, trained, temperature } = sampledRow(spans);
    return trained.length === 0 ? [] : [{ trajectory, index, row: { ids, trained, temperature, fields: {} } }];
  });
}

/** Scores of rows, put back where the rows stand; a row in which nothing was sampled has none. */
function byTrajectory(rows: readonly PlacedRow[], scores: readonly Float32Array[]): Map<Trajectory, TokenValues> {
  const found = new Map<Trajectory, Float32Array[]>();
  rows.forEach(({ trajectory, index }, i) => {
    const values = found.get(trajectory) ?? trajectory.rows.map(() => new Float32Array(0));
    values[index] = scores[i]!;
    found.set(trajectory, values);
  });
  return found;
}

/**
 * The critic's values before each sampled token and after the last one. An episode that ended by itself is worth nothing more; of one
 * that a limit cut, the state after its last token is asked for as one more position of its last row.
 */
async function readValues(
  engine: Engine,
  rows: readonly PlacedRow[],
  abort: { readonly signal?: AbortSignal },
): Promise<Map<Trajectory, Evidence>> {
  const lastOf = new Map(rows.map(({ trajectory }, i) => [trajectory, i]));
  const asked = rows.map(({ trajectory, row }, i): TrainRow => {
    if (lastOf.get(trajectory) !== i || !isTruncated(trajectory)) return row;
    return { ...row, trained: Int32Array.from([...row.trained, row.trained.at(-1)! + 1]) };
  });
  const values = await engine.values(asked, { adapter: "critic", ...abort });
  const before = byTrajectory(rows, values.map((all, i) => all.subarray(0, rows[i]!.row.trained.length)));
  return new Map(
    [...before].map(([trajectory, own]) => [
      trajectory,
      { values: own, valueAfter: isTruncated(trajectory) ? values[lastOf.get(trajectory)!]!.at(-1)! : 0 },
    ]),
  );
}

async function scoreTurns(
  scorer: TurnScorer | undefined,
  trajectories: readonly Trajectory[],
  { name, ...on }: { readonly policy: EvidenceOptions["policy"]; readonly name: string; readonly signal?: AbortSignal },
): Promise<readonly (readonly number[])[]> {
  if (scorer === undefined) {
    throw new RewardError(expected("turnScorer", `a scorer of turns, which ${name} needs`, "none", "hand one to train"));
  }
  const scores = await scorer(trajectories, on);
  trajectories.forEach(({ id, turns }, i) => {
    const got = scores[i];
    if (got?.length === turns.length && got.every(Number.isFinite)) return;
    throw new RewardError(expected(`turn scores of ${id}`, `${turns.length} finite numbers`, JSON.stringify(got ?? null)));
  });
  return scores;
}

/** k3 of a token is exp(reference - policy) - 1 - (reference - policy): at least 0 and without bias, as k1 = policy - reference is. */
function klMetric(found: ReadonlyMap<Trajectory, Evidence>): Record<string, number> {
  const [k1, k3] = [[] as number[], [] as number[]];
  for (const [trajectory, { reference, trainer }] of found) {
    if (reference === undefined) continue;
    let [first, third, count] = [0, 0, 0];
    trajectory.rows.forEach((row, i) => {
      const policy = trainer?.[i] ?? sampledRow(row).logprobs;
      policy.forEach((logprob, t) => {
        const gap = logprob - reference[i]![t]!;
        first += gap;
        third += Math.expm1(-gap) + gap;
      });
      count += policy.length;
    });
    if (count > 0) [k1, k3].forEach((means, i) => means.push([first, third][i]! / count));
  }
  return k1.length === 0 ? {} : { "kl/completion": mean(k3), "kl/completionK1": mean(k1) };
}
