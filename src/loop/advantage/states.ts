/**
 * Steps that began in one state, compared with each other: GiGPO's step-level groups (Feng et al. 2025, arXiv:2505.10978). Samples of
 * one task pass through the same states; what followed a state in one sample is the baseline of what followed it in another.
 */
import type { Message, Trajectory } from "../../types.ts";
import { groupAdvantages, type GroupScale } from "./group.ts";

/** What names a state: what the environment said last, or the whole conversation before the turn. */
export const stateNames = ["observation", "history"] as const;
export type StateName = (typeof stateNames)[number];

/** The name of the state in which each turn began; equal names are equal states. */
export function statesOf({ task, turns }: Pick<Trajectory, "task" | "turns">, by: StateName): string[] {
  let seen = task.prompt.map(said);
  return turns.map(({ message, replies }) => {
    const name = JSON.stringify(seen);
    const next = replies.map(said);
    seen = by === "history" ? [...seen, said(message), ...next] : next;
    return name;
  });
}

/** Ids of calls are left out: they differ where nothing else does. */
function said({ role, content, name, reasoning, toolCalls = [] }: Message): readonly unknown[] {
  return [role, content, name ?? null, reasoning ?? null, toolCalls.map((call) => [call.name, call.arguments])];
}

/** What one sample brings: a number for each of its steps (a return, a reward), and the state in which the step began. */
export interface StepNumbers {
  readonly states_T: readonly string[];
  readonly numbers_T: readonly number[];
}

/**
 * Each step's number beside those of the same state, in all samples and at every visit: number minus mean, scaled as told. A step
 * that is alone in its state, or among equals, gets 0.
 */
export function stateAdvantages(samples_G: readonly StepNumbers[], scale: GroupScale): number[][] {
  const places = new Map<string, { readonly g: number; readonly t: number }[]>();
  samples_G.forEach(({ states_T }, g) =>
    states_T.forEach((state, t) => {
      const same = places.get(state);
      if (same === undefined) places.set(state, [{ g, t }]);
      else same.push({ g, t });
    }),
  );
  const advantages_G_T = samples_G.map(({ numbers_T }) => new Array<number>(numbers_T.length).fill(0));
  for (const same of places.values()) {
    const compared = groupAdvantages(same.map(({ g, t }) => samples_G[g]!.numbers_T[t]!), scale);
    same.forEach(({ g, t }, i) => (advantages_G_T[g]![t] = compared[i] ?? 0));
  }
  return advantages_G_T;
}
