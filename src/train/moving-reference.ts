/** A reference that follows the policy (arXiv:2404.09656): set anew every so many steps, or a moving average. */
import type { Engine } from "../types.ts";
import type { TrainConfig } from "./config.ts";

/** Called after a step that changed the policy. Checkpoints keep the reference with the engine's state. */
export function moveReference(engine: Engine, { config: { train }, step }: { config: Pick<TrainConfig, "train">; step: number }): void {
  if (train.referenceDecay > 0) engine.blendAdapter("policy", "reference", train.referenceDecay);
  if (train.resetReferenceEvery > 0 && step % train.resetReferenceEvery === 0) engine.blendAdapter("policy", "reference", 0);
}
