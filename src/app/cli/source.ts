/** What a command samples from: a trained run, or a model as it is. */
import { join } from "node:path";
import { z } from "zod";
import { openPolicy, type OpenedPolicy } from "../../compute/policy/open.ts";
import { compactionPolicies, type CompactionOptions } from "../../loop/rollout/compaction.ts";
import { readJsonObject } from "../../train/record/read-run.ts";
import { isRunFolder, openTrainedPolicy } from "../../train/trained.ts";
import type { JsonObject } from "../../types.ts";
import type { CliServices } from "./services.ts";
import { cacheOption, pathFrom } from "./ui/places.ts";

interface RunSettings {
  /** The environment that the run's configuration names, with its options. */
  readonly env?: JsonObject & { readonly name: string };
  readonly maxTokens?: number;
  readonly maxTurns?: number;
  /** How long contexts were shortened. */
  readonly compaction?: CompactionOptions;
}

const settingsSchema = z.looseObject({
  env: z.looseObject({ name: z.string() }).optional(),
  rollout: z
    .looseObject({
      maxTokens: z.number(),
      maxTurns: z.number(),
      compaction: z.enum(compactionPolicies).default("none"),
      compactAt: z.number().default(0),
      keepTurns: z.number().default(4),
    })
    .optional(),
});

/** What a run was trained on, so that it is measured on the same; null for a source that is no run. */
export async function runSettings(source: string, { cwd }: Pick<CliServices, "cwd">): Promise<RunSettings | null> {
  const path = pathFrom(cwd, source);
  if (!(await isRunFolder(path))) return null;
  const { env, rollout } = settingsSchema.parse(await readJsonObject(join(path, "config.json")));
  return {
    ...(env === undefined ? {} : { env: env as JsonObject & { readonly name: string } }),
    ...(rollout === undefined ? {} : given(rollout)),
  };
}

function given({ maxTokens, maxTurns, compaction, compactAt, keepTurns }: NonNullable<z.output<typeof settingsSchema>["rollout"]>) {
  return { maxTokens, maxTurns, compaction: { compaction, compactAt, keepTurns } };
}

/** Opens a run folder, a model folder or file, or the hub id of a pulled model. */
export async function openSource(source: string, { cwd, environment }: Pick<CliServices, "cwd" | "environment">): Promise<OpenedPolicy> {
  const path = pathFrom(cwd, source);
  const cache = cacheOption(environment);
  return (await isRunFolder(path)) ? openTrainedPolicy(path, cache) : openPolicy(path, cache);
}
