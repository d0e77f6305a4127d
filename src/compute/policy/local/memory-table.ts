/** What the models of PPO and GRPO take in memory, as four copies, as two, and as adapters on one base. */
import type { Architecture } from "../../models/architecture.ts";
import { loraShapes, loraTargets } from "../../models/lora.ts";
import { parameterCount } from "./memory.ts";

/** Bytes at float32. */
interface MemoryRow {
  readonly layout: "four copies (PPO)" | "two copies (GRPO)" | "one base with adapters (PPO)";
  readonly weights: number;
  readonly gradients: number;
  /** AdamW's two. */
  readonly moments: number;
  readonly total: number;
}

/**
 * Bytes of weights, gradients and moments; activations and caches come on top and are the same for all. Four copies: actor and
 * critic trained, reward model and reference frozen (critic and reward model have a scalar head where the others have the
 * vocabulary's). Two copies: policy and reference. Ours: a frozen base that is the reference too, trained adapters of `rank` on all
 * linear layers for policy and critic, a frozen one for the reward model, scalar heads on the last two.
 */
export function memoryTable(architecture: Architecture, rank: number): readonly MemoryRow[] {
  const { hidden, vocabulary, tied } = architecture;
  const model = parameterCount(architecture);
  const scored = model - (tied ? 0 : vocabulary * hidden) + hidden;
  const shapes = loraShapes(architecture, { rank, alpha: rank, targets: loraTargets });
  const adapter = [...shapes.values()].reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0);
  return [
    row("four copies (PPO)", { trained: model + scored, frozen: model + scored }),
    row("two copies (GRPO)", { trained: model, frozen: model }),
    row("one base with adapters (PPO)", { trained: 2 * adapter + hidden, frozen: model + adapter + hidden }),
  ];
}

function row(layout: MemoryRow["layout"], { trained, frozen }: { trained: number; frozen: number }): MemoryRow {
  const [weights, gradients, moments] = [4 * (trained + frozen), 4 * trained, 8 * trained];
  return { layout, weights, gradients, moments, total: weights + gradients + moments };
}
