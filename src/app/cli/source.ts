/** What a command samples from: a trained run, or a model as it is. */
import { openPolicy, type OpenedPolicy } from "../../compute/policy/open.ts";
import { isRunFolder, openTrainedPolicy } from "../../train/trained.ts";
import type { CliServices } from "./services.ts";
import { cacheOption, pathFrom } from "./ui/places.ts";

/** Opens a run folder, a model folder or file, or the hub id of a pulled model. */
export async function openSource(source: string, { cwd, environment }: Pick<CliServices, "cwd" | "environment">): Promise<OpenedPolicy> {
  const path = pathFrom(cwd, source);
  const cache = cacheOption(environment);
  return (await isRunFolder(path)) ? openTrainedPolicy(path, cache) : openPolicy(path, cache);
}
