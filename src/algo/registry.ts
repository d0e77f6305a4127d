/** The algorithms that a configuration can name. An algorithm is added by its file, a line here and one in index.ts. */
import type { z } from "zod";
import type { Algorithm, OfflineAlgorithm } from "../types.ts";
import { cispo } from "./cispo.ts";
import { dapo } from "./dapo.ts";
import { dppo } from "./dppo.ts";
import { drGrpo } from "./dr-grpo.ts";
import { grpo } from "./grpo.ts";
import { gspo } from "./gspo.ts";
import { maxrl } from "./maxrl.ts";
import { reinforce } from "./reinforce.ts";
import { reinforcePlusPlus } from "./reinforce-plus-plus.ts";
import { reinforcePlusPlusBaseline } from "./reinforce-plus-plus-baseline.ts";
import { remax } from "./remax.ts";
import { rloo } from "./rloo.ts";
import { sft } from "./sft.ts";

export const algorithms = [
  grpo,
  sft,
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
] as const;

type Config = (typeof algorithms)[number]["config"];
/** What a configuration says of an algorithm, with every default filled in. */
type AlgorithmSettings = z.output<Config>;

/** The algorithm that checked settings name. */
export function openAlgorithm({ name, ...settings }: AlgorithmSettings): Algorithm | OfflineAlgorithm {
  const factory = algorithms.find(({ id }) => id === name)!;
  return (factory as (options: object) => Algorithm | OfflineAlgorithm)(settings);
}
