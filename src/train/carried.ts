/** What a step hands to the next one besides weights: a controller's coefficients, kept in checkpoints. */
import { z } from "zod";
import { RunError, expected } from "../errors.ts";
import type { Algorithm } from "../types.ts";
import type { Run } from "./record/run-folder.ts";

/** The coefficients of the first step to come: the checkpoint's, or the controller's first ones. */
export function coefficientsOf(
  run: Pick<Run, "resumedFrom">,
  { controller }: Pick<Algorithm, "controller">,
): Readonly<Record<string, number>> {
  if (controller === undefined) return {};
  if (run.resumedFrom === null) return controller.initial;
  const { name, manifest } = run.resumedFrom;
  const parsed = z.record(z.string(), z.number()).safeParse(manifest.extra["coefficients"]);
  if (parsed.success) return parsed.data;
  throw new RunError(expected(`checkpoint ${name}`, "the controller's coefficients", JSON.stringify(manifest.extra).slice(0, 60)));
}
