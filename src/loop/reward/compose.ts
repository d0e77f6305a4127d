/** Rewards made of named parts. Every part is in the verdict's components, so that no log shows a sum alone. */
import { expected, RewardError, scored } from "../../errors.ts";
import type { Reward, Verdict } from "../../types.ts";

type ScoredVerdict = Extract<Verdict, { type: "scored" }>;
type Episode = Parameters<Reward>[0];

/** The sum of weight x score. Weights are used as given: (0.7, 0.3) with scores (1, 0) is 0.7. */
export function weighted(parts: Readonly<Record<string, { readonly reward: Reward; readonly weight: number }>>): Reward {
  for (const [name, { weight }] of Object.entries(parts)) {
    if (!Number.isFinite(weight)) throw new RewardError(expected(`reward component ${name}: weight`, "a finite number", String(weight)));
  }
  const rewards = Object.fromEntries(Object.entries(parts).map(([name, { reward }]) => [name, reward]));
  return combine(rewards, (score) => Object.entries(parts).reduce((sum, [name, { weight }]) => sum + weight * score(name), 0));
}

/** The reward where every gate scores 1, else 0. A condition such as a format thus allows a score and can never earn one. */
export function gated(gates: Readonly<Record<string, Reward>>, name: string, reward: Reward): Reward {
  if (Object.hasOwn(gates, name)) {
    throw new RewardError(expected("gated reward", "distinct names", `"${name}" as a gate and as the reward`));
  }
  return combine({ ...gates, [name]: reward }, (score) => (Object.keys(gates).every((gate) => score(gate) === 1) ? score(name) : 0));
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
    return scored(total((name) => graded.get(name)!.score), explanation, components);
  };
}
