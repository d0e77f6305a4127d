/** The algorithms that a configuration can name. An algorithm is added by its file, a line here and one in index.ts. */
import type { z } from "zod";
import type { Algorithm, OfflineAlgorithm } from "../types.ts";
import * as all from "./index.ts";

export const algorithms = [
  all.grpo,
  all.sft,
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
  all.dpo,
  all.kto,
  all.orpo,
  all.simpo,
  all.onlineDpo,
  all.rewardModel,
  all.processRewardModel,
] as const;

type Config = (typeof algorithms)[number]["config"];
/** What a configuration says of an algorithm, with every default filled in. */
type AlgorithmSettings = z.output<Config>;

/** The algorithm that checked settings name. */
export function openAlgorithm({ name, ...settings }: AlgorithmSettings): Algorithm | OfflineAlgorithm {
  const factory = algorithms.find(({ id }) => id === name)!;
  return (factory as (options: object) => Algorithm | OfflineAlgorithm)(settings);
}
