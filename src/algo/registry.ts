/** The algorithms that a configuration can name. An algorithm is added by its file, a line here and one in index.ts. */
import type { z } from "zod";
import type { Algorithm, OfflineAlgorithm } from "../types.ts";
import { gigpo } from "./gigpo.ts";
import { grpo } from "./grpo.ts";
import { processGrpo } from "./process-grpo.ts";
import { sft } from "./sft.ts";

export const algorithms = [grpo, gigpo, processGrpo, sft] as const;

type Config = (typeof algorithms)[number]["config"];
/** What a configuration says of an algorithm, with every default filled in. */
type AlgorithmSettings = z.output<Config>;

/** The algorithm that checked settings name. */
export function openAlgorithm({ name, ...settings }: AlgorithmSettings): Algorithm | OfflineAlgorithm {
  const factory = algorithms.find(({ id }) => id === name)!;
  return (factory as (options: object) => Algorithm | OfflineAlgorithm)(settings);
}
