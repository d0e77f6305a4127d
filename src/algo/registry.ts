/** The algorithms that a configuration can name. An algorithm is added by its file, a line here and one in index.ts. */
import type { z } from "zod";
import type { Algorithm, OfflineAlgorithm } from "../types.ts";
import { dpo } from "./dpo.ts";
import { grpo } from "./grpo.ts";
import { kto } from "./kto.ts";
import { onlineDpo } from "./online-dpo.ts";
import { orpo } from "./orpo.ts";
import { processRewardModel } from "./process-reward-model.ts";
import { rewardModel } from "./reward-model.ts";
import { sft } from "./sft.ts";
import { simpo } from "./simpo.ts";

export const algorithms = [grpo, sft, dpo, kto, orpo, simpo, onlineDpo, rewardModel, processRewardModel] as const;

type Config = (typeof algorithms)[number]["config"];
/** What a configuration says of an algorithm, with every default filled in. */
type AlgorithmSettings = z.output<Config>;

/** The algorithm that checked settings name. */
export function openAlgorithm({ name, ...settings }: AlgorithmSettings): Algorithm | OfflineAlgorithm {
  const factory = algorithms.find(({ id }) => id === name)!;
  return (factory as (options: object) => Algorithm | OfflineAlgorithm)(settings);
}
