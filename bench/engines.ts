/** Engines and rows to measure with: random weights and random ids, the same in every run. */
import type { Architecture } from "../src/compute/models/architecture.ts";
import { loraTargets, type LoraOptions } from "../src/compute/models/lora.ts";
import { initialParameters } from "../src/compute/models/parameters.ts";
import { LocalEngine, type LocalEngineOptions } from "../src/compute/policy/local/engine.ts";
import type { AdamWOptions, RandomKey, SampledSpan } from "../src/types.ts";
import { integer, rng } from "../src/random.ts";

export const lora: LoraOptions = { rank: 16, alpha: 32, targets: loraTargets };
export const adamw: AdamWOptions = { learningRate: 1e-4, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, maxGradNorm: 1 };

type Train = LocalEngineOptions["train"]["type"];

export function openEngine(architecture: Architecture, train: Train, options: Partial<LocalEngineOptions> = {}): LocalEngine {
  const chosen: LocalEngineOptions["train"] = train === "lora" ? { type: "lora", lora } : { type: train };
  return LocalEngine.open({ name: "bench", architecture, parameters: initialParameters(architecture, 0), train: chosen, ...options });
}

/** Ids that depend on `parts` alone. */
export function randomIds(a: Architecture, length: number, ...parts: readonly (string | number)[]): number[] {
  const key = rng(0, "bench", ...parts);
  return Array.from({ length }, (_, i) => integer(key, a.vocabulary, i));
}

/** `count` samples of exactly `tokens` tokens: no id stops them. */
export function sampleAll(
  engine: LocalEngine,
  prompt: readonly number[],
  { count, tokens, from }: { count: number; tokens: number; from: string },
): Promise<readonly SampledSpan[]> {
  const keys = Array.from({ length: count }, (_, i): RandomKey => rng(0, "bench", from, i));
  return engine.sample({ prompt, count, maxTokens: tokens, temperature: 1, stopIds: [], keys });
}
