/** What each algorithm is given: its own defaults, but groups of 8, and step sizes for a small model instead of those for large ones. */
import type { JsonObject } from "../../src/types.ts";

export interface Setup {
  readonly settings: JsonObject;
  /** Left out where the algorithm takes no AdamW step. */
  readonly learningRate?: number;
  /** Prompts of one step; examples of one step where they are given. Sampled algorithms see 64 samples a step in all. */
  readonly perStep: number;
  readonly steps: number;
}

/** Sampled: 64 completions a step. */
const groups = (settings: JsonObject = {}, learningRate = 1e-3): Setup => ({
  settings: { groupSize: 8, ...settings },
  learningRate,
  perStep: 8,
  steps: 10,
});
/** Given: 32 examples a step. */
const given = (settings: JsonObject, learningRate: number): Setup => ({ settings, learningRate, perStep: 32, steps: 20 });

export const setups: Readonly<Record<string, Setup>> = {
  reinforce: groups(),
  remax: groups(),
  rloo: groups({ klRewardCoef: 0.01 }),
  "reinforce-plus-plus": groups(),
  "reinforce-plus-plus-baseline": groups(),
  ppo: groups({ epochsPerBatch: 2, klRewardCoef: 0.01 }, 5e-4),
  "turn-ppo": groups({ epochsPerBatch: 2, criticLearningRate: 1e-3 }, 5e-4),
  trpo: { settings: { groupSize: 8 }, perStep: 8, steps: 10 },
  grpo: groups(),
  "dr-grpo": groups({}, 2e-3),
  dapo: groups({ resampleRounds: 2 }),
  gspo: groups({ epochsPerBatch: 2 }),
  cispo: groups(),
  maxrl: groups(),
  dppo: groups(),
  gigpo: groups(),
  "process-grpo": groups({ stepReward: "difference", gamma: 0.5, outcomeWeight: 1 }),
  "online-dpo": groups({}, 1e-3),
  sft: given({}, 5e-4),
  dpo: given({}, 1e-4),
  kto: given({}, 3e-4),
  orpo: given({}, 2e-4),
  simpo: given({ beta: 2, gamma: 0.5 }, 1e-4),
  "reward-model": given({}, 1e-3),
  "process-reward-model": given({}, 1e-3),
};
