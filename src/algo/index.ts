/** The algorithms: for `import … from "flywheel/algo"`. */
export { defineAlgorithm, defineOffline, type AlgorithmFactory } from "./define.ts";
export { grpo } from "./grpo.ts";
export { dpo } from "./dpo.ts";
export { kto } from "./kto.ts";
export { onlineDpo } from "./online-dpo.ts";
export { orpo } from "./orpo.ts";
export { processRewardModel } from "./process-reward-model.ts";
export { rewardModel } from "./reward-model.ts";
export { sft } from "./sft.ts";
export { simpo } from "./simpo.ts";
