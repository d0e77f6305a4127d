/** The algorithms that a configuration can name. An algorithm is added by its file, a line here and one in index.ts. */
import type { Algorithm, JsonObject, OfflineAlgorithm } from "../types.ts";
import { cispo } from "./cispo.ts";
import { dapo } from "./dapo.ts";
import { dpo } from "./dpo.ts";
import { dppo } from "./dppo.ts";
import { drGrpo } from "./dr-grpo.ts";
import { grpo } from "./grpo.ts";
import { gspo } from "./gspo.ts";
import { kto } from "./kto.ts";
import { maxrl } from "./maxrl.ts";
import { onlineDpo } from "./online-dpo.ts";
import { orpo } from "./orpo.ts";
import { ppo } from "./ppo.ts";
import { processRewardModel } from "./process-reward-model.ts";
import { reinforce } from "./reinforce.ts";
import { reinforcePlusPlus } from "./reinforce-plus-plus.ts";
import { reinforcePlusPlusBaseline } from "./reinforce-plus-plus-baseline.ts";
import { remax } from "./remax.ts";
import { rewardModel } from "./reward-model.ts";
import { rloo } from "./rloo.ts";
import { sft } from "./sft.ts";
import { simpo } from "./simpo.ts";
import { trpo } from "./trpo.ts";

export const algorithms = [
  grpo,
  sft,
  dpo,
  kto,
  orpo,
  simpo,
  onlineDpo,
  rewardModel,
  processRewardModel,
  reinforce,
  rloo,
  remax,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  drGrpo,
  dapo,
  gspo,
  cispo,
  maxrl,
  dppo,
  ppo,
  trpo,
] as const;

/** The algorithm that checked settings name. */
export function openAlgorithm({ name, ...settings }: JsonObject & { readonly name: string }): Algorithm | OfflineAlgorithm {
  const factory = algorithms.find(({ id }) => id === name)!;
  return (factory as (options: object) => Algorithm | OfflineAlgorithm)(settings);
}
