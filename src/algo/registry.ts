/** The algorithms that a configuration can name. An algorithm is added by its file, a line here and one in index.ts. */
import type { Algorithm, JsonObject, OfflineAlgorithm } from "../types.ts";
import * as all from "./index.ts";

export const algorithms = [
  all.grpo,
  all.sft,
  all.dpo,
  all.kto,
  all.orpo,
  all.simpo,
  all.onlineDpo,
  all.rewardModel,
  all.processRewardModel,
  all.reinforce,
  all.rloo,
  all.remax,
  all.reinforcePlusPlus,
  all.reinforcePlusPlusBaseline,
  all.drGrpo,
  all.dapo,
  all.gspo,
  all.cispo,
  all.maxrl,
  all.dppo,
  all.gigpo,
  all.processGrpo,
  all.ppo,
  all.trpo,
  all.turnPpo,
] as const;

/** The algorithm that checked settings name. */
export function openAlgorithm({ name, ...settings }: JsonObject & { readonly name: string }): Algorithm | OfflineAlgorithm {
  const factory = algorithms.find(({ id }) => id === name)!;
  return (factory as (options: object) => Algorithm | OfflineAlgorithm)(settings);
}
