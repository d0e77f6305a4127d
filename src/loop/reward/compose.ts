/** Rewards made of named parts. Every part is in the verdict's components, so that no log shows a sum alone. */
import { expected, RewardError, scored } from "../../errors.ts";
import type { Reward, Verdict } from "../../types.ts";

type ScoredVerdict = Extract<Verdict, { type: "scored" }>;
type Episode = Parameters<Reward>[0];

interface RewardPart {
  readonly reward: Reward;
  readonly weight: number;
  /** The lowest and highest score that the part can have; another is the grader's fault. Needed if any part is shaping. */
  readonly bounds?: readonly [low: number, high: number];
  /** A part that guides and is not the aim. All shaping together can never be worth as much as the success of any other part. */
  readonly shaping?: boolean;
}

/**
 * The sum of weight x score. Weights are used as given: (0.7, 0.3) with scores (1, 0) is 0.7. Refused when it is made: a weight that is
 * no number, and shaping that could outweigh success.
 */
export function weighted(parts: Readonly<Record<string, RewardPart>>): Reward {
  const entries = Object.entries(parts);
  for (const [name, part] of entries) checkPart(name, part);
  refuseHeavyShaping(entries);
  const rewards = Object.fromEntries(entries.map(([name, part]) => [name, bounded(name, part)]));
  return combine(rewards, (score) => entries.reduce((sum, [name, { weight }]) => sum + weight * score(name), 0));
}

/** The reward where every gate scores 1, else 0. A condition such as a format thus allows a score and can never earn one. */
export function gated(gates: Readonly<Record<string, Reward>>, name: string, reward: Reward): Reward {
  if (Object.hasOwn(gates, name)) {
    throw new RewardError(expected("gated reward", "distinct names", `"${name}" as a gate and as the reward`));
  }
  return combine({ ...gates, [name]: reward }, (score) => (Object.keys(gates).every((gate) => score(gate) === 1) ? score(name) : 0));
}

/** The sum of the rewards that the environment gave to single turns; 0 if it gave none. */
export function turnRewards(): Reward {
  return ({ turns }) => {
    const given = turns.flatMap(({ reward }, turn) => (reward === undefined ? [] : [{ turn: turn + 1, reward }]));
    const sum = given.reduce((total, { reward }) => total + reward, 0);
    return scored(sum, given.length === 0 ? "no turn was rewarded" : given.map(({ turn, reward }) => `turn ${turn}: ${reward}`).join(", "));
  };
}

function checkPart(name: string, { weight, bounds, shaping = false }: RewardPart): void {
  const where = `reward component ${name}`;
  if (!Number.isFinite(weight)) throw new RewardError(expected(`${where}: weight`, "a finite number", String(weight)));
  if (bounds !== undefined && !(bounds.length === 2 && bounds.every(Number.isFinite) && bounds[0] < bounds[1])) {
    throw new RewardError(expected(`${where}: bounds`, "two finite numbers, the lower first", JSON.stringify(bounds)));
  }
  if (shaping && bounds === undefined) {
    throw new RewardError(expected(`${where}: bounds`, "the lowest and highest score of a shaping part", "none", "give bounds: [0, 1]"));
  }
}

/** What the shaping parts can move together must be less than what the least of the other parts moves by succeeding. */
function refuseHeavyShaping(entries: readonly (readonly [string, RewardPart])[]): void {
  const shaping = entries.filter(([, part]) => part.shaping === true);
  if (shaping.length === 0) return;
  const aims = entries.filter(([, part]) => part.shaping !== true && part.weight !== 0);
  if (aims.length === 0) throw new RewardError(expected("composed reward", "a part that is not shaping", "shaping alone"));
  const range = ([, { weight, bounds }]: readonly [string, RewardPart]): number => Math.abs(weight) * (bounds![1] - bounds![0]);
  const open = aims.find(([, part]) => part.bounds === undefined);
  if (open !== undefined) {
    throw new RewardError(
      expected(`reward component ${open[0]}: bounds`, "its lowest and highest score, beside shaping", "none", "give bounds: [0, 1]"),
    );
  }
  const [moved, least] = [shaping.reduce((sum, part) => sum + range(part), 0), Math.min(...aims.map(range))];
  if (moved >= least) {
    const remedy = "lower the weights of the shaping parts";
    throw new RewardError(expected("shaping", `less than ${least} in all, which is what success is worth`, String(moved), remedy));
  }
}

function bounded(name: string, { reward, bounds }: RewardPart): Reward {
  if (bounds === undefined) return reward;
  return async (episode) => {
    const verdict = await reward(episode);
    if (verdict.type !== "scored" || (verdict.score >= bounds[0] && verdict.score <= bounds[1])) return verdict;
    throw new RewardError(expected(`reward component ${name}`, `a score from ${bounds[0]} to ${bounds[1]}`, String(verdict.score)));
  };
}

/** Grades with all parts; one that could not grade makes the whole so, and infrastructure failures are named first. */
function combine(rewards: Readonly<Record<string, Reward>>, total: (score: (name: string) => number) => number): Reward {
  const names = Object.keys(rewards);
  if (names.length === 0) throw new RewardError(expected("composed reward", "at least one component", "none"));
  return async (episode: Episode) => {
    const verdicts = await Promise.all(names.map(async (name) => [name, await rewards[name]!(episode)] as const));
    for (const type of ["infrastructure", "unscorable"] as const) {
      for (const [name, verdict] of verdicts) if (verdict.type === type) return { type, reason: `${name}: ${verdict.reason}` };
    }
    const graded = new Map(verdicts as readonly (readonly [string, ScoredVerdict])[]);
    const components: Record<string, number> = {};
    for (const [name, verdict] of graded) {
      components[name] = verdict.score;
      for (const [inner, value] of Object.entries(verdict.components)) components[`${name}.${inner}`] = value;
    }
    const explanation = [...graded].map(([name, verdict]) => `${name} ${verdict.score} (${verdict.explanation})`).join("; ");
    return scored(
      total((name) => graded.get(name)!.score),
      explanation,
      components,
    );
  };
}
